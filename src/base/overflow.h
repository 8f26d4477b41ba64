// SPDX-License-Identifier: Apache-2.0
//
// Sums and products that may leave their type: true if they do; the result
// is then of no use.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

namespace strop {

template <std::integral T>
constexpr bool AddOverflows(T a, std::type_identity_t<T> b, T* sum) {
  using Limits = std::numeric_limits<T>;
  const bool overflows = b < 0 ? a < Limits::min() - b : a > Limits::max() - b;
  *sum = overflows ? Limits::max() : a + b;
  return overflows;
}

// For factors that are not negative.
template <std::integral T>
constexpr bool MultiplyOverflows(T a, std::type_identity_t<T> b, T* product) {
  using Limits = std::numeric_limits<T>;
  const bool overflows = b != 0 && a > Limits::max() / b;
  *product = overflows ? Limits::max() : a * b;
  return overflows;
}

}  // namespace strop
