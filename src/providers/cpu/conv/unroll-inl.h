// SPDX-License-Identifier: Apache-2.0
//
// Loops of a constant length, unrolled so that arrays of vectors stay in
// registers. Compiled once per target.
#if defined(STROP_CONV_UNROLL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_CONV_UNROLL_INL_H_
#undef STROP_CONV_UNROLL_INL_H_
#else
#define STROP_CONV_UNROLL_INL_H_
#endif

#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Calls f(std::integral_constant<int, i>()) for i in [0, n).
template <int n, class F>
HWY_INLINE void UnrollTimes(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) HWY_ATTR {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
