// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution (a filter for each channel) of one block of channels
// of one image: x (input_h, input_w, block), y (output_h, output_w, block),
// w (kernel_h, kernel_w, block). A vector holds channels.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "providers/cpu/conv/fused_conv.h"
#include "strop/execution_provider.h"

namespace strop {

// The taps [first, last) of a window that lie inside the input, and where in
// the input tap 0 lies (it may lie outside).
struct DepthwiseSpan {
  int64_t start, first, last;
};

struct DepthwisePlan {
  Layout layout = Layout::kBlocked8;
  int64_t input_h = 1, input_w = 1;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t stride_w = 1;
  std::vector<DepthwiseSpan> rows, columns;  // of the outputs
  // The columns whose windows lie inside as a whole.
  int64_t inner_begin = 0, inner_end = 0;
  std::vector<float> zeros;  // a row of the input: what lies outside of it
  // Of an activation behind the forward pass.
  Bounds bounds = {-std::numeric_limits<float>::infinity(),
                   std::numeric_limits<float>::infinity()};

  int64_t block() const { return BlockSize(layout); }
  int64_t taps() const { return kernel_h * kernel_w; }
  bool IsInner(const DepthwiseSpan& row) const {
    return row.first == 0 && row.last == kernel_h;
  }
  int64_t input_count() const { return input_h * input_w * block(); }
  int64_t output_count() const {
    return static_cast<int64_t>(rows.size() * columns.size()) * block();
  }
};

// y from x; `bias` (one block) may be null.
using DepthwiseForward = void (*)(const DepthwisePlan& plan, const float* x,
                                  const float* w, const float* bias, float* y);
// dx, which is overwritten, from dy. With stride 1 this is the forward pass of
// another plan, by the flipped kernel.
using DepthwiseBackward = void (*)(const DepthwisePlan& plan, const float* dy,
                                   const float* w, float* dx);
// dw += what the image gives.
using DepthwiseWeights = void (*)(const DepthwisePlan& plan, const float* x,
                                  const float* dy, float* dw);

DepthwiseForward GetDepthwiseForward(Layout layout);
DepthwiseBackward GetDepthwiseBackward(Layout layout);
DepthwiseWeights GetDepthwiseWeights(Layout layout);

}  // namespace strop
