// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

#include "base/round.h"

namespace strop::ops {
namespace {

// Far above any real window, far below where products overflow.
constexpr int64_t kLimit = int64_t{1} << 31;

// An attribute with one number per spatial axis.
Window::Axes ReadAxes(const OpNode& node, std::string_view name, size_t rank,
                      int64_t fallback, int64_t least) {
  Window::Axes axes;
  axes.fill(fallback);
  const auto values = node.Ints(name);
  if (values.empty()) return axes;
  if (values.size() != rank) {
    Fail(node, "attribute {} has {} numbers for {} spatial axes", name,
         values.size(), rank);
  }
  for (size_t i = 0; i < rank; ++i) {
    if (values[i] < least || values[i] > kLimit) {
      Fail(node, "attribute {} holds {}, which is out of range", name,
           values[i]);
    }
    axes[i] = values[i];
  }
  return axes;
}

void ReadPads(const OpNode& node, Window& w) {
  const auto pads = node.Ints("pads");
  if (pads.empty()) return;
  if (pads.size() != 2 * w.rank) {
    Fail(node, "attribute pads has {} numbers for {} spatial axes", pads.size(),
         w.rank);
  }
  for (size_t i = 0; i < w.rank; ++i) {
    w.pad_begin[i] = pads[i];
    w.pad_end[i] = pads[i + w.rank];
    if (std::min(pads[i], pads[i + w.rank]) < 0 ||
        std::max(pads[i], pads[i + w.rank]) > kLimit) {
      Fail(node, "attribute pads holds a number that is out of range");
    }
  }
}

int64_t Extent(const Window& w, size_t i) {
  return (w.kernel[i] - 1) * w.dilation[i] + 1;
}

// Sets pads for auto_pad and the output size; `w` has all the rest.
void FinishWindow(const OpNode& node, Window& w, bool ceil_mode) {
  const std::string_view auto_pad = node.String("auto_pad", "NOTSET");
  const bool same_lower = auto_pad == "SAME_LOWER";
  const bool same = same_lower || auto_pad == "SAME_UPPER";
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    ReadPads(node, w);
  } else if (!same && auto_pad != "VALID") {
    Fail(node, "attribute auto_pad is \"{}\"", auto_pad);
  }
  for (size_t i = 0; i < w.rank; ++i) {
    const int64_t extent = Extent(w, i);
    if (same) {
      w.output[i] = CeilDiv(w.input[i], w.stride[i]);
      const int64_t pad = std::max<int64_t>(
          0, (w.output[i] - 1) * w.stride[i] + extent - w.input[i]);
      w.pad_begin[i] = same_lower ? pad - pad / 2 : pad / 2;
      w.pad_end[i] = pad - w.pad_begin[i];
      continue;
    }
    const int64_t room = w.input[i] + w.pad_begin[i] + w.pad_end[i] - extent;
    if (room < 0) {
      Fail(node,
           "the window spans {} along spatial axis {}, the padded input only "
           "{}",
           extent, i, room + extent);
    }
    w.output[i] = room / w.stride[i] + 1;
    // A last, partial window counts if it starts before the right padding.
    if (ceil_mode && room % w.stride[i] != 0 &&
        w.output[i] * w.stride[i] < w.input[i] + w.pad_begin[i]) {
      ++w.output[i];
    }
  }
}

// The spatial axes of x go into `axes`: what the window reads or, for
// transposed ops, what it writes.
Window StartWindow(const OpNode& node, const Shape& x,
                   Window::Axes Window::*axes = &Window::input) {
  if (x.rank() < 3) {
    Fail(node, "wants an input of rank 3 or more, not {}", x.ToString());
  }
  Window w;
  w.rank = x.rank() - 2;
  for (size_t i = 0; i < w.rank; ++i) (w.*axes)[i] = x[i + 2];
  w.stride = ReadAxes(node, "strides", w.rank, 1, 1);
  w.dilation = ReadAxes(node, "dilations", w.rank, 1, 1);
  return w;
}

// The kernel of a weight (out, in, taps...).
void ReadWeight(const OpNode& node, const Shape& x, const Shape& weight,
                Window& w) {
  if (weight.rank() != x.rank()) {
    Fail(node, "input {} and weight {} differ in rank", x.ToString(),
         weight.ToString());
  }
  const auto kernel = node.Ints("kernel_shape");
  for (size_t i = 0; i < w.rank; ++i) {
    w.kernel[i] = weight[i + 2];
    if (w.kernel[i] < 1 || w.kernel[i] > kLimit) {
      Fail(node, "the weight {} has no taps", weight.ToString());
    }
    if (!kernel.empty() &&
        (kernel.size() != w.rank || kernel[i] != weight[i + 2])) {
      Fail(node, "attribute kernel_shape does not fit the weight {}",
           weight.ToString());
    }
  }
}

// Where the window lands that stands at the last of w.output positions: the
// size of w.input without padding.
int64_t Reach(const OpNode& node, const Window& w, size_t i) {
  if (w.output[i] > kLimit) {
    Fail(node, "spatial axis {} of size {} is out of range", i, w.output[i]);
  }
  return (w.output[i] - 1) * w.stride[i] + Extent(w, i);
}

// The wanted sizes of attribute output_shape, which may name batch and
// channels too; empty without it.
std::span<const int64_t> ReadOutputShape(const OpNode& node, size_t rank) {
  const auto sizes = node.Ints("output_shape");
  if (sizes.empty()) return sizes;
  if (sizes.size() != rank && sizes.size() != rank + 2) {
    Fail(node, "attribute output_shape has {} numbers for {} spatial axes",
         sizes.size(), rank);
  }
  for (const int64_t size : sizes) {
    if (size < 0 || size > kLimit) {
      Fail(node, "attribute output_shape holds {}, which is out of range",
           size);
    }
  }
  return sizes.last(rank);
}

}  // namespace

int64_t Window::Product(const Axes& axes) const {
  int64_t product = 1;
  for (size_t i = 0; i < rank; ++i) product *= axes[i];
  return product;
}

Window::Span Window::ValidOutputs(size_t axis, int64_t k) const {
  // 0 <= o * stride + shift < input
  const int64_t s = stride[axis];
  const int64_t shift = k * dilation[axis] - pad_begin[axis];
  const int64_t first = shift >= 0 ? 0 : CeilDiv(-shift, s);
  const int64_t room = input[axis] - shift;  // o * stride < room
  const int64_t last = room <= 0 ? 0 : CeilDiv(room, s);
  return {first, std::min(last, output[axis])};
}

Window ConvWindow(const OpNode& node, const Shape& x, const Shape& w) {
  Window window = StartWindow(node, x);
  ReadWeight(node, x, w, window);
  FinishWindow(node, window, /*ceil_mode=*/false);
  return window;
}

Window ConvTransposeWindow(const OpNode& node, const Shape& x,
                           const Shape& weight) {
  Window w = StartWindow(node, x, &Window::output);
  ReadWeight(node, x, weight, w);
  const Window::Axes extra = ReadAxes(node, "output_padding", w.rank, 0, 0);
  const auto wanted = ReadOutputShape(node, w.rank);
  const std::string_view auto_pad = node.String("auto_pad", "NOTSET");
  const bool same_upper = auto_pad == "SAME_UPPER";
  const bool same = same_upper || auto_pad == "SAME_LOWER";
  const bool explicit_pads = auto_pad == "NOTSET" || auto_pad.empty();
  if (!same && !explicit_pads && auto_pad != "VALID") {
    Fail(node, "attribute auto_pad is \"{}\"", auto_pad);
  }
  if (wanted.empty() && explicit_pads) ReadPads(node, w);
  for (size_t i = 0; i < w.rank; ++i) {
    const int64_t full = Reach(node, w, i) + extra[i];
    if (wanted.empty() && !same) {
      w.input[i] = full - w.pad_begin[i] - w.pad_end[i];
    } else {
      // The pads follow from the size; what lies behind `full` stays empty.
      w.input[i] = wanted.empty() ? w.output[i] * w.stride[i] : wanted[i];
      const int64_t pad = std::max<int64_t>(0, full - w.input[i]);
      w.pad_begin[i] = same_upper ? pad / 2 : pad - pad / 2;
      w.pad_end[i] = pad - w.pad_begin[i];
    }
    if (w.input[i] < 0) {
      Fail(node, "pads leave nothing of the {} cells along spatial axis {}",
           full, i);
    }
  }
  return w;
}

Window UnpoolWindow(const OpNode& node, const Shape& x) {
  Window w = StartWindow(node, x, &Window::output);
  if (node.Ints("kernel_shape").empty()) {
    Fail(node, "attribute kernel_shape is missing");
  }
  w.kernel = ReadAxes(node, "kernel_shape", w.rank, 1, 1);
  ReadPads(node, w);
  for (size_t i = 0; i < w.rank; ++i) {
    w.input[i] = Reach(node, w, i) - w.pad_begin[i] - w.pad_end[i];
    if (w.input[i] < 0) {
      Fail(node, "pads leave nothing along spatial axis {}", i);
    }
  }
  return w;
}

Window BlockWindow(const OpNode& node, std::span<const int64_t> image,
                   std::span<const int64_t> block) {
  Window w;
  w.rank = image.size();
  if (w.rank < 1 || w.rank > Window::kMaxAxes || block.size() != w.rank) {
    Fail(node, "an image of {} and a block of {} axes do not fit", image.size(),
         block.size());
  }
  for (size_t i = 0; i < w.rank; ++i) {
    if (std::min(image[i], block[i]) < 1 ||
        std::max(image[i], block[i]) > kLimit) {
      Fail(node, "a block of {} in an image of {} along axis {} is impossible",
           block[i], image[i], i);
    }
    w.input[i] = image[i];
    w.kernel[i] = block[i];
  }
  w.stride = ReadAxes(node, "strides", w.rank, 1, 1);
  w.dilation = ReadAxes(node, "dilations", w.rank, 1, 1);
  FinishWindow(node, w, /*ceil_mode=*/false);
  return w;
}

Window PoolWindow(const OpNode& node, const Shape& x) {
  Window window = StartWindow(node, x);
  if (node.Ints("kernel_shape").empty()) {
    Fail(node, "attribute kernel_shape is missing");
  }
  window.kernel = ReadAxes(node, "kernel_shape", window.rank, 1, 1);
  if (Shape({window.kernel.data(), window.rank}).element_count() > kLimit) {
    Fail(node, "a window of more than {} cells is out of range", kLimit);
  }
  FinishWindow(node, window, node.Int("ceil_mode", 0) != 0);
  for (size_t i = 0; i < window.rank; ++i) {
    if (std::max(window.pad_begin[i], window.pad_end[i]) >= Extent(window, i)) {
      Fail(node, "padding of spatial axis {} is not smaller than the window",
           i);
    }
  }
  return window;
}

namespace {

Shape WithSpatial(int64_t batch, int64_t channels, const Window::Axes& axes,
                  size_t rank) {
  Dims dims = {batch, channels};
  for (size_t i = 0; i < rank; ++i) dims[i + 2] = axes[i];
  return Shape(std::span<const int64_t>(dims.data(), rank + 2));
}

}  // namespace

Shape WindowOutputShape(const Window& window, int64_t batch, int64_t channels) {
  return WithSpatial(batch, channels, window.output, window.rank);
}

Shape WindowInputShape(const Window& window, int64_t batch, int64_t channels) {
  return WithSpatial(batch, channels, window.input, window.rank);
}

}  // namespace strop::ops
