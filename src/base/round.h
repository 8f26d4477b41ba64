// SPDX-License-Identifier: Apache-2.0
//
// Integer division that rounds up, for numbers that are not negative.
#pragma once

namespace strop {

// The least q with q * b >= a.
template <class T>
constexpr T CeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

// The least multiple of `step` that is not below `n`.
template <class T>
constexpr T RoundUp(T n, T step) {
  return CeilDiv(n, step) * step;
}

}  // namespace strop
