// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/bias_grad.h"

#include <algorithm>
#include <cstdint>

#include "providers/cpu/conv/lane_sum.h"

namespace strop {
namespace {

template <int kBlock>
void SumBlocked(const KernelContext& context, const Shape& shape,
                const float* dy, bool overwrite, float* db) {
  const int64_t positions = shape.element_count(2, shape.rank());
  const int64_t channels = shape[1];
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  const double cost = 0.1 * kBlock * static_cast<double>(shape[0] * positions);
  context.ParallelFor(blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      double lanes[kBlock] = {};
      for (int64_t n = 0; n < shape[0]; ++n) {
        SumLanes<kBlock>(dy + (n * blocks + b) * positions * kBlock, positions,
                         lanes);
      }
      const int64_t real = std::min<int64_t>(kBlock, channels - b * kBlock);
      for (int64_t l = 0; l < real; ++l) {
        float& target = db[b * kBlock + l];
        target = static_cast<float>(overwrite ? lanes[l] : target + lanes[l]);
      }
    }
  });
}

void SumPlain(const KernelContext& context, const Shape& shape, const float* dy,
              bool overwrite, float* db) {
  const int64_t positions = shape.element_count(2, shape.rank());
  const double cost = 0.2 * static_cast<double>(shape[0] * positions);
  context.ParallelFor(shape[1], cost, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      double sum = 0;
      for (int64_t n = 0; n < shape[0]; ++n) {
        sum += SumRow(dy + (n * shape[1] + m) * positions, positions);
      }
      db[m] = static_cast<float>(overwrite ? sum : db[m] + sum);
    }
  });
}

}  // namespace

void BiasGradient(const KernelContext& context, const Shape& dy_shape,
                  Layout layout, const float* dy, bool overwrite, float* db) {
  switch (layout) {
    case Layout::kPlain:
      return SumPlain(context, dy_shape, dy, overwrite, db);
    case Layout::kBlocked8:
      return SumBlocked<8>(context, dy_shape, dy, overwrite, db);
    case Layout::kBlocked16:
      return SumBlocked<16>(context, dy_shape, dy, overwrite, db);
  }
}

}  // namespace strop
