// SPDX-License-Identifier: Apache-2.0
//
// The geometry of convolution and pooling: a window of taps slides over the
// spatial axes. Output position o reads, at tap k,
//   input position  o * stride - pad_begin + k * dilation.
#pragma once

#include <array>

#include "ops/op_util.h"

namespace strop::ops {

struct Window {
  static constexpr size_t kMaxAxes = Shape::kMaxRank - 2;
  using Axes = std::array<int64_t, kMaxAxes>;

  size_t rank = 0;  // number of spatial axes
  Axes input = {}, output = {};
  Axes kernel = {}, stride = {}, dilation = {};
  Axes pad_begin = {}, pad_end = {};

  int64_t input_size() const { return Product(input); }
  int64_t output_size() const { return Product(output); }
  int64_t kernel_size() const { return Product(kernel); }
  int64_t Product(const Axes& axes) const;

  // Output positions [first, last) along `axis` that read inside the input
  // at tap k.
  struct Span {
    int64_t first, last;
  };
  Span ValidOutputs(size_t axis, int64_t k) const;
};

// The window of a Conv node (ConvGrad and the fused forms share its
// attributes): auto_pad, dilations, kernel_shape, pads, strides. Throws when
// shapes and attributes do not fit.
Window ConvWindow(const OpNode& node, const Shape& x, const Shape& w);

// The window of a MaxPool, AveragePool or LpPool node, with ceil_mode.
Window PoolWindow(const OpNode& node, const Shape& x);

// The window of a ConvTranspose node, seen as the convolution that it is the
// transpose of: `output` is what the node reads, `input` what it writes.
Window ConvTransposeWindow(const OpNode& node, const Shape& x, const Shape& w);

// The same for a MaxUnpool node and the pooling that it undoes.
Window UnpoolWindow(const OpNode& node, const Shape& x);

// Col2Im: a block that slides over an image, as dilations, pads and strides
// say.
Window BlockWindow(const OpNode& node, std::span<const int64_t> image,
                   std::span<const int64_t> block);

// (batch, channels, output...).
Shape WindowOutputShape(const Window& window, int64_t batch, int64_t channels);
// (batch, channels, input...).
Shape WindowInputShape(const Window& window, int64_t batch, int64_t channels);

// Calls row(tap, x, y, count) for every tap and every run of outputs along
// the last axis that read inside the input: outputs y + j read the inputs
// x + j * stride, for j < count and the stride of the last axis.
template <class F>
void ForEachTapRow(const Window& w, F&& row) {
  const size_t last = w.rank - 1;
  const int64_t taps = w.kernel_size();
  Window::Axes k = {};
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t rest = tap;
    Window::Span spans[Window::kMaxAxes] = {};
    bool empty = false;
    int64_t rows = 1;
    for (size_t axis = w.rank; axis-- > 0;) {
      k[axis] = rest % w.kernel[axis];
      rest /= w.kernel[axis];
      spans[axis] = w.ValidOutputs(axis, k[axis]);
      empty |= spans[axis].first >= spans[axis].last;
      if (axis != last) rows *= spans[axis].last - spans[axis].first;
    }
    if (empty) continue;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t index = r, x = 0, y = 0, x_step = w.input[last],
              y_step = w.output[last];
      for (size_t axis = last; axis-- > 0;) {
        const int64_t size = spans[axis].last - spans[axis].first;
        const int64_t o = spans[axis].first + index % size;
        index /= size;
        x += (o * w.stride[axis] - w.pad_begin[axis] +
              k[axis] * w.dilation[axis]) *
             x_step;
        y += o * y_step;
        x_step *= w.input[axis];
        y_step *= w.output[axis];
      }
      const int64_t first = spans[last].first;
      x += first * w.stride[last] - w.pad_begin[last] +
           k[last] * w.dilation[last];
      row(tap, x, y + first, spans[last].last - first);
    }
  }
}

}  // namespace strop::ops
