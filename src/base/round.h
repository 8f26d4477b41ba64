// SPDX-License-Identifier: Apache-2.0
//
// Integer division that rounds up, for numbers that are not negative.
#pragma once

namespace strop {

// The least q with q * b >= a.
template <class T>
constexpr T CeilDiv(T a, T b) {
  return a / b + (a % b != 0);  // a + b - 1 might be too large
}

// The least multiple of `step` that is not below `n`.
template <class T>
constexpr T RoundUp(T n, T step) {
  return CeilDiv(n, step) * step;
}

}  // namespace strop
