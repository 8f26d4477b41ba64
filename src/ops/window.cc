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
    const int64_t extent = (w.kernel[i] - 1) * w.dilation[i] + 1;
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

Window StartWindow(const OpNode& node, const Shape& x) {
  if (x.rank() < 3) {
    Fail(node, "wants an input of rank 3 or more, not {}", x.ToString());
  }
  Window w;
  w.rank = x.rank() - 2;
  for (size_t i = 0; i < w.rank; ++i) w.input[i] = x[i + 2];
  w.stride = ReadAxes(node, "strides", w.rank, 1, 1);
  w.dilation = ReadAxes(node, "dilations", w.rank, 1, 1);
  return w;
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
  if (w.rank() != x.rank()) {
    Fail(node, "input {} and weight {} differ in rank", x.ToString(),
         w.ToString());
  }
  const auto kernel = node.Ints("kernel_shape");
  for (size_t i = 0; i < window.rank; ++i) {
    window.kernel[i] = w[i + 2];
    if (window.kernel[i] < 1 || window.kernel[i] > kLimit) {
      Fail(node, "the weight {} has no taps", w.ToString());
    }
    if (!kernel.empty() &&
        (kernel.size() != window.rank || kernel[i] != w[i + 2])) {
      Fail(node, "attribute kernel_shape does not fit the weight {}",
           w.ToString());
    }
  }
  FinishWindow(node, window, /*ceil_mode=*/false);
  return window;
}

Window PoolWindow(const OpNode& node, const Shape& x) {
  Window window = StartWindow(node, x);
  if (node.Ints("kernel_shape").empty()) {
    Fail(node, "attribute kernel_shape is missing");
  }
  window.kernel = ReadAxes(node, "kernel_shape", window.rank, 1, 1);
  FinishWindow(node, window, node.Int("ceil_mode", 0) != 0);
  for (size_t i = 0; i < window.rank; ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilation[i] + 1;
    if (std::max(window.pad_begin[i], window.pad_end[i]) >= extent) {
      Fail(node, "padding of spatial axis {} is not smaller than the window",
           i);
    }
  }
  return window;
}

Shape WindowOutputShape(const Window& window, int64_t batch, int64_t channels) {
  Dims dims = {batch, channels};
  for (size_t i = 0; i < window.rank; ++i) dims[i + 2] = window.output[i];
  return Shape(std::span<const int64_t>(dims.data(), window.rank + 2));
}

}  // namespace strop::ops
