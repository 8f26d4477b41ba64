// SPDX-License-Identifier: Apache-2.0
//
// Long sums of floats: short runs in float, the runs in double, so that the
// result is as good as a sum in double at the speed of one in float.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strop {

// lanes[l] += sum of x[i * kLanes + l] over i < count. Four rows of partial
// sums hide the latency of the addition.
template <int kLanes>
void SumLanes(const float* x, int64_t count, double* lanes) {
  constexpr int kRows = 4;
  constexpr int64_t kRun = 64 * kRows;
  for (int64_t start = 0; start < count; start += kRun) {
    const int64_t end = std::min(count, start + kRun);
    float sums[kRows][kLanes] = {};
    int64_t i = start;
    for (; i + kRows <= end; i += kRows) {
      for (int r = 0; r < kRows; ++r) {
        for (int l = 0; l < kLanes; ++l) {
          sums[r][l] += x[(i + r) * kLanes + l];
        }
      }
    }
    for (; i < end; ++i) {
      for (int l = 0; l < kLanes; ++l) sums[0][l] += x[i * kLanes + l];
    }
    for (int l = 0; l < kLanes; ++l) {
      lanes[l] += (sums[0][l] + sums[1][l]) + (sums[2][l] + sums[3][l]);
    }
  }
}

// The sum of a row of `count` elements.
inline double SumRow(const float* x, int64_t count) {
  double lanes[8] = {};
  SumLanes<8>(x, count / 8, lanes);
  double sum = 0;
  for (int64_t i = count / 8 * 8; i < count; ++i) sum += x[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace strop
