// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on counts, which end at the largest int64 instead of
// overflowing: they may come from a command line or a file.
#pragma once

#include <cstdint>
#include <limits>

namespace strop {

// Both for numbers of 0 or more.
inline int64_t SaturatedProduct(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return b != 0 && a > kMost / b ? kMost : a * b;
}
inline int64_t SaturatedSum(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

}  // namespace strop
