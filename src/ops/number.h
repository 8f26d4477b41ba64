// SPDX-License-Identifier: Apache-2.0
//
// Numbers of any type as doubles, and doubles as numbers of a type.
#pragma once

#include <cmath>
#include <limits>

#include "base/half.h"
#include "ops/op_util.h"

namespace strop::ops {

using Halves = TypeList<Float16, Bfloat16>;
using AllFloats = TypeList<float, double, Float16, Bfloat16>;

inline bool IsHalf(DataType type) {
  return DispatchType(Halves{}, type, []<class T>() {});
}
inline bool IsFloatingPoint(DataType type) {
  return DispatchType(AllFloats{}, type, []<class T>() {});
}

// x as a T: fractions are cut off, what an integer type cannot hold becomes
// its nearest number, and NaN 0. Any number but 0 is true.
template <class T>
T FromDouble(double x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(x)) return 0;
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    if (x >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

// The same, but integers are rounded: to the nearest, halves to even.
template <class T>
T RoundedFromDouble(double x) {
  constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  return FromDouble<T>(is_integer ? std::nearbyint(x) : x);
}

template <class T>
double ToDouble(T x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(x);
  } else {
    return static_cast<double>(ToFloat(x));
  }
}

// The element type that an int attribute names; the fallback when it is
// absent. Throws when kernels do not know the type.
DataType TypeAttribute(const OpNode& node, std::string_view attribute,
                       DataType fallback);

}  // namespace strop::ops
