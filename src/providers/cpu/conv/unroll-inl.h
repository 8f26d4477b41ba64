// SPDX-License-Identifier: Apache-2.0
//
// Tiles of constant sizes: loops unrolled so that arrays of vectors stay in
// registers. Compiled once per target.
#if defined(STROP_CONV_UNROLL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_CONV_UNROLL_INL_H_
#undef STROP_CONV_UNROLL_INL_H_
#else
#define STROP_CONV_UNROLL_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "providers/cpu/simd/vector-inl.h"

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

// Calls f(std::integral_constant<int, n>()) for n in [1, most].
template <int most, class F>
HWY_INLINE void WithConstant(int n, F&& f) {
  if constexpr (most > 1) {
    if (n < most) return WithConstant<most - 1>(n, f);
  }
  f(std::integral_constant<int, most>());
}

// Vectors that the registers hold.
#if STROP_AVX512 || HWY_TARGET == HWY_NEON
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
