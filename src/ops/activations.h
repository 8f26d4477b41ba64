// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace strop::ops {

// 1 / (1 + exp(-x)), from exp of a negative number only: nothing overflows,
// and a small result keeps its digits.
template <class T>
T Logistic(T x) {
  const T e = std::exp(-std::abs(x));
  return (x < 0 ? e : T{1}) / (1 + e);
}

}  // namespace strop::ops
