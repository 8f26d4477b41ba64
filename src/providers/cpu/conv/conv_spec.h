// SPDX-License-Identifier: Apache-2.0
//
// What the convolution kernels know of a node: geometry and sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/window.h"
#include "providers/cpu/scratch_layout.h"
#include "strop/execution_provider.h"

namespace strop {

// x is (batch, channels, input...), w (filters, channels / groups,
// kernel...), y (batch, filters, output...).
struct ConvSpec {
  ops::Window window;
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t filters = 0;
  int64_t groups = 1;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_filters() const { return filters / groups; }
  int64_t weight_count() const {
    return filters * group_channels() * window.kernel_size();
  }
  // Multiplications and additions of one pass over a batch.
  double flops() const {
    return 2.0 * static_cast<double>(batch) *
           static_cast<double>(weight_count()) *
           static_cast<double>(window.output_size());
  }
  bool is_empty() const {
    return batch == 0 || channels == 0 || filters == 0 ||
           window.input_size() == 0 || window.output_size() == 0;
  }
};

// `node` has the attributes of Conv; shapes have passed inference.
ConvSpec MakeConvSpec(const OpNode& node, const Shape& x, const Shape& w);

// A node of the op ConvGrad (inputs dY, X, W; outputs dX, dW, dB, each
// optional) or ConvGradAccumulate: that has the buffers of dW and dB (the
// latter optional) as inputs 3 and 4, which it overwrites or adds to as the
// flag at input 5 says; its outputs 1 and 2 are their memory.
struct ConvGradSpec {
  ConvSpec conv;
  Shape dy_shape;
  bool accumulates = false;
  bool has_dx = false, has_dw = false, has_db = false;

  double flops() const { return conv.flops() * (has_dx + has_dw); }
  // While running: where the gradients go.
  bool Overwrites(const KernelContext& context) const {
    return !accumulates || context.scalar<bool>(5);
  }
  float* dw(const KernelContext& context) const {
    return static_cast<float*>(
        (accumulates ? context.input(3) : context.output(1)).data());
  }
  float* db(const KernelContext& context) const {
    return static_cast<float*>(
        (accumulates ? context.input(4) : context.output(2)).data());
  }
};

ConvGradSpec MakeConvGradSpec(const KernelRequest& request);

// Why no fast kernel can serve: an element type other than float32 among the
// inputs (a flag may be bool), or images, padding included, of more than 2^31
// elements. Empty if nothing speaks against them.
std::string ConvDeclines(const KernelRequest& request, const ConvSpec& spec);

}  // namespace strop
