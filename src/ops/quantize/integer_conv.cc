// SPDX-License-Identifier: Apache-2.0
//
// Convolution of 8-bit numbers: ConvInteger and QLinearConv, that of
// com.microsoft too. Padding holds the zero point. Sums are exact in int32
// (they wrap around where even that is too small).
#include "ops/nn/conv_kernels.h"
#include "ops/quantize/channels_last.h"
#include "ops/quantize/quantized.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// The tensors of a convolution and their zero points: that of the weight may
// differ between output channels.
struct IntegerConv {
  ConvSizes sizes;
  const Tensor* x;
  const Tensor* w;
  PerLine x_zero, w_zero;
  bool channels_last = false;
};

IntegerConv ReadConv(const KernelContext& c, const PlaneLayout& layout,
                     size_t x, size_t w, size_t x_zero, size_t w_zero) {
  const ConvSizes s = ReadConvSizes(c.node(), layout.shape, c.input(w).shape());
  return {s,
          &c.input(x),
          &c.input(w),
          ReadLines(c, x_zero, 1, 0),
          ReadLines(c, w_zero, s.out_channels, 0),
          layout.last};
}

template <class X, class W>
void ConvolveChannel(const OpNode& node, const IntegerConv& conv, int64_t n,
                     int64_t m, int32_t* y) {
  const ConvSizes& s = conv.sizes;
  const Window& window = s.window;
  const X* x = conv.x->values<X>().data();
  const W* w = conv.w->values<W>().data();
  const int32_t x_zero = static_cast<int32_t>(conv.x_zero.At(node, 0));
  const int32_t w_zero = static_cast<int32_t>(conv.w_zero.At(node, m));
  // From one cell of a channel to the next, and from channel to channel.
  const int64_t step = conv.channels_last ? s.in_channels : 1;
  const int64_t channel_step = conv.channels_last ? 1 : window.input_size();
  const int64_t stride = window.stride[window.rank - 1] * step;
  const X* sample = x + n * s.in_channels * window.input_size();
  std::fill_n(y, window.output_size(), 0);
  for (int64_t k = 0; k < s.group_in(); ++k) {
    const int64_t channel = m / s.group_out() * s.group_in() + k;
    const X* plane = sample + channel * channel_step;
    const W* taps = w + (m * s.group_in() + k) * window.kernel_size();
    ForEachTapRow(
        window, [&](int64_t tap, int64_t xo, int64_t yo, int64_t count) {
          const int32_t factor = taps[tap] - w_zero;
          for (int64_t j = 0; j < count; ++j) {
            y[yo + j] = Plus(y[yo + j],
                             factor * (plane[xo * step + j * stride] - x_zero));
          }
        });
  }
}

// y: (batch, output channels, outputs)
void Convolve(const KernelContext& c, const IntegerConv& conv, int32_t* y) {
  const ConvSizes& s = conv.sizes;
  const int64_t out = s.window.output_size();
  DispatchType(EightBits{}, conv.x->type(), [&]<class X>() {
    DispatchType(EightBits{}, conv.w->type(), [&]<class W>() {
      c.ParallelFor(s.batch * s.out_channels, 0.3 * s.flops_per_channel(),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        ConvolveChannel<X, W>(c.node(), conv,
                                              i / s.out_channels,
                                              i % s.out_channels, y + i * out);
                      }
                    });
    });
  });
}

// Input i: one number, or one for each output channel.
void RequirePerChannel(const InferContext& c, size_t i, int64_t channels) {
  const Shape& shape = c.input(i).shape;
  if (!IsOneOrPerLine(shape, channels)) {
    Fail(c.node(), "input {} must have the shape ({}) or one element, not {}",
         i, channels, shape.ToString());
  }
}

Shape ConvShape(const ConvSizes& s) {
  return WindowOutputShape(s.window, s.batch, s.out_channels);
}

// x, w, zero point of x, zero point of w -> int32
void InferConvInteger(InferContext& c) {
  RequireQuantized(c, 0);
  RequireQuantized(c, 1);
  const ConvSizes s =
      ReadConvSizes(c.node(), c.input(0).shape, c.input(1).shape);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireOneElement(c, 2);
  }
  if (c.has_input(3)) {
    RequireSameType(c, 1, 3);
    RequirePerChannel(c, 3, s.out_channels);
  }
  c.SetOutput(0, DataType::kInt32, ConvShape(s));
}

void ConvInteger(const KernelContext& c) {
  Convolve(c, ReadConv(c, PlaneLayout(c.input(0).shape()), 0, 1, 2, 3),
           c.out<int32_t>(0).data());
}

// Where the tensors of a QLinearConv have their channels; ONNX's own has no
// attribute for it.
PlaneLayout ConvLayout(const OpNode& node, const Shape& x) {
  return node.domain() == kMicrosoft ? PlaneLayout(node, x) : PlaneLayout(x);
}

// x, w and y, each with scale and zero point (y itself is the output), and a
// bias (int32, in the scale of x times that of w).
void InferQLinearConv(InferContext& c) {
  RequireQuantizedTriple(c, 0);
  RequireQuantized(c, 3);
  RequireFloat(c, 4);
  RequireSameType(c, 3, 5);
  const PlaneLayout layout = ConvLayout(c.node(), c.input(0).shape);
  const ConvSizes s = ReadConvSizes(c.node(), layout.shape, c.input(3).shape);
  RequirePerChannel(c, 4, s.out_channels);
  RequirePerChannel(c, 5, s.out_channels);
  if (c.has_input(8)) {
    RequireType(c, 8, DataType::kInt32);
    RequireShape(c, 8, {s.out_channels});
  }
  c.SetOutput(0, QuantizedOutputType(c, 6), layout.Restore(ConvShape(s)));
}

// The sums before they are quantized.
size_t QLinearConvScratch(const KernelRequest& request) {
  return static_cast<size_t>(request.outputs[0].shape.element_count()) *
         sizeof(int32_t);
}

void QLinearConv(const KernelContext& c) {
  const OpNode& node = c.node();
  const PlaneLayout layout = ConvLayout(node, c.input(0).shape());
  const IntegerConv conv = ReadConv(c, layout, 0, 3, 2, 5);
  const ConvSizes& s = conv.sizes;
  int32_t* sums = reinterpret_cast<int32_t*>(c.scratch());
  Convolve(c, conv, sums);
  const double x_scale = DoubleAt(node, c.input(1), 0);
  const PerLine w_scale = ReadLines(c, 4, s.out_channels, 1);
  const int32_t* bias = c.has_input(8) ? c.in<int32_t>(8).data() : nullptr;
  const Quantization q = ReadQuantization(c, 6, 7);
  const int64_t out = s.window.output_size();
  const auto quantize_channel = [&](int64_t channel) {
    const int64_t m = channel % s.out_channels;
    const double scale = x_scale * w_scale.At(node, m);
    const int32_t shift = bias ? bias[m] : 0;
    for (int64_t i = 0; i < out; i += kQuantBlock) {
      const int64_t count = std::min(kQuantBlock, out - i);
      const int64_t first = channel * out + i;
      double values[kQuantBlock];
      for (int64_t j = 0; j < count; ++j) {
        values[j] = Plus(sums[first + j], shift) * scale;
      }
      if (!layout.last) {
        Quantize(node, c.output(0), q, first, count, values);
        continue;
      }
      const int64_t cell = channel / s.out_channels * out + i;
      for (int64_t j = 0; j < count; ++j) {
        Quantize(node, c.output(0), q, (cell + j) * s.out_channels + m, 1,
                 &values[j]);
      }
    }
  };
  c.ParallelFor(s.batch * s.out_channels, 3 * static_cast<double>(out),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) quantize_channel(i);
                });
}

}  // namespace

extern constexpr OpDef kConvInteger = {
    .name = "ConvInteger",
    .since = 10,
    .inputs = {2, 4},
    .infer = InferConvInteger,
    .reference = Untyped<EightBits>(ConvInteger),
    .stops_gradient = {0, 1, 2, 3}};

extern constexpr OpDef kQLinearConv = {
    .name = "QLinearConv",
    .since = 10,
    .inputs = {8, 9},
    .infer = InferQLinearConv,
    .reference = Untyped<EightBits>(QLinearConv, QLinearConvScratch),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7, 8}};

// The same, with the attribute channels_last. The weight is as ever.
extern constexpr OpDef kQLinearConvMicrosoft = {
    .name = "QLinearConv",
    .domain = kMicrosoft,
    .inputs = {8, 9},
    .infer = InferQLinearConv,
    .reference = Untyped<EightBits>(QLinearConv, QLinearConvScratch),
    .stops_gradient = {0, 1, 2, 3, 4, 5, 6, 7, 8}};

}  // namespace strop::ops
