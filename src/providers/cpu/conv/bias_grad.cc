// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/bias_grad.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/round.h"
#include "providers/cpu/conv/lane_sum.h"

namespace strop {
namespace {

// Calls f(std::integral_constant<int, size of the layout's blocks>()).
template <class F>
void WithBlock(Layout layout, F&& f) {
  switch (layout) {
    case Layout::kPlain:
      return f(std::integral_constant<int, 1>());
    case Layout::kBlocked8:
      return f(std::integral_constant<int, 8>());
    case Layout::kBlocked16:
      return f(std::integral_constant<int, 16>());
  }
}

template <int kBlock>
int64_t Blocks(const Shape& shape) {
  return CeilDiv<int64_t>(shape[1], kBlock);
}

// sums[lane] += the sum of block b of image n.
template <int kBlock>
void AddBlock(const Shape& shape, const float* dy, int64_t n, int64_t b,
              double* sums) {
  const int64_t positions = shape.element_count(2, shape.rank());
  const float* block =
      dy + (n * Blocks<kBlock>(shape) + b) * positions * kBlock;
  if constexpr (kBlock == 1) {
    *sums += SumRow(block, positions);
  } else {
    SumLanes<kBlock>(block, positions, sums);
  }
}

// The gradient of the bias of block b.
template <int kBlock>
void SumBlock(const Shape& shape, const float* dy, int64_t b, bool overwrite,
              float* db) {
  double sums[kBlock] = {};
  for (int64_t n = 0; n < shape[0]; ++n) {
    AddBlock<kBlock>(shape, dy, n, b, sums);
  }
  const int64_t real = std::min<int64_t>(kBlock, shape[1] - b * kBlock);
  for (int64_t l = 0; l < real; ++l) {
    float& target = db[b * kBlock + l];
    target = static_cast<float>(overwrite ? sums[l] : target + sums[l]);
  }
}

}  // namespace

void BiasGradient(const KernelContext& context, const Shape& dy_shape,
                  Layout layout, const float* dy, bool overwrite, float* db) {
  const int64_t positions = dy_shape.element_count(2, dy_shape.rank());
  WithBlock(layout, [&](auto block) {
    const double element_cost = block == 1 ? 0.2 : 0.1 * block;
    context.ParallelFor(
        Blocks<block>(dy_shape),
        element_cost * static_cast<double>(dy_shape[0] * positions),
        [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            SumBlock<block>(dy_shape, dy, b, overwrite, db);
          }
        });
  });
}

void AddBiasSums(const Shape& dy_shape, Layout layout, const float* dy,
                 int64_t first, int64_t last, double* sums) {
  WithBlock(layout, [&](auto block) {
    for (int64_t n = first; n < last; ++n) {
      for (int64_t b = 0; b < Blocks<block>(dy_shape); ++b) {
        AddBlock<block>(dy_shape, dy, n, b, sums + b * block);
      }
    }
  });
}

}  // namespace strop
