// SPDX-License-Identifier: Apache-2.0
//
// Pooling windows worked out for the kernels: up to three spatial axes, and
// for each output index along an axis the cells that its window holds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/round.h"
#include "ops/window.h"
#include "strop/execution_provider.h"

namespace strop {

struct PoolSpan {
  int64_t start = 0;  // position of the first cell inside the input
  int64_t count = 1;  // cells inside the input
  // Cells that an average divides by along this axis.
  int64_t divisor = 1;
};

struct PoolAxis {
  std::vector<PoolSpan> outputs = std::vector<PoolSpan>(1);
  int64_t step = 0;    // from one cell to the next; positions count in a plane
  int64_t stride = 0;  // from one window to the next
  int64_t kernel = 1;  // cells of a window that padding cuts nothing off
  // The outputs with such windows.
  int64_t whole_first = 0, whole_last = 1;
};

struct PoolPlan {
  PoolAxis axes[3];  // missing axes come first and have one output
  int64_t input_size = 1, output_size = 1;
  // Dilation and padding together may leave a window without a cell.
  bool has_empty_window = false;

  // How the tensors lie: (batch, blocks, positions, block).
  Layout layout = Layout::kPlain;
  int64_t batch = 0, channels = 0;
  int64_t blocks() const {
    const int64_t block = BlockSize(layout);
    return CeilDiv(channels, block);
  }
};

// Nullopt for more than three spatial axes. `node` has the attributes of a
// pool, x is the shape of the forward input.
std::optional<PoolPlan> MakePoolPlan(const OpNode& node, const Shape& x,
                                     Layout layout);

// --- The loops over one plane or block of planes (pool_loops.cc)

// `index` may be null; index[o * block + lane] for the first `lanes` lanes is
// index_base + lane * input_size + the position of the maximum, others 0.
using MaxPoolFunction = void (*)(const PoolPlan& plan, const float* x, float* y,
                                 int64_t* index, int64_t index_base,
                                 int64_t lanes);
using AveragePoolFunction = void (*)(const PoolPlan& plan, const float* x,
                                     float* y);

MaxPoolFunction GetMaxPool(Layout layout);
AveragePoolFunction GetAveragePool(Layout layout);
// From dy to dx, which is overwritten.
AveragePoolFunction GetAveragePoolGrad(Layout layout);

}  // namespace strop
