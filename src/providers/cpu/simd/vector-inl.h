// SPDX-License-Identifier: Apache-2.0
//
// Small helpers over Highway, compiled once per target.
#if defined(STROP_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_SIMD_VECTOR_INL_H_
#undef STROP_SIMD_VECTOR_INL_H_
#else
#define STROP_SIMD_VECTOR_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

// AVX3 is Highway's name for AVX-512; AVX3_DL is what a compiler that is told
// of a newer processor makes of it.
#undef STROP_AVX512
#define STROP_AVX512 (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)
#undef STROP_HAS_MASKED_MEMORY
#define STROP_HAS_MASKED_MEMORY (STROP_AVX512 || HWY_TARGET == HWY_AVX2)

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// The first `n` < Lanes lanes; the others are zero and not touched in memory.
HWY_INLINE FloatVec LoadTail(FloatTag d, const float* p, size_t n) {
#if STROP_HAS_MASKED_MEMORY
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float lanes[HWY_LANES(float)] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

HWY_INLINE void StoreTail(FloatVec v, FloatTag d, float* p, size_t n) {
#if STROP_HAS_MASKED_MEMORY
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN float lanes[HWY_LANES(float)];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(float));
#endif
}

// Whether all lanes have the same bits: 0 and -0 have not, equal NaNs have.
HWY_INLINE bool SameBits(FloatVec a, FloatVec b) {
  const hn::RebindToUnsigned<FloatTag> d;
  return hn::AllTrue(d, hn::Eq(hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Whether all lanes are zero, none of them -0: what writes such a vector where
// it may be already looks first. A batch names few rows of an embedding; the
// rest of its gradient is zero, and so are the moments of rows that no batch
// has named yet. New memory that is only read takes none, and is read from the
// cache (OwnedTensor).
HWY_INLINE bool IsZero(FloatVec x) { return SameBits(x, hn::Zero(FloatTag())); }

// A NaN stays one; where the bounds cross, the upper one wins.
template <class V>
HWY_INLINE V ClipKeepingNan(V v, V low, V high) {
  v = hn::IfThenElse(hn::Lt(v, low), low, v);
  return hn::IfThenElse(hn::Gt(v, high), high, v);
}

// y[i] = op(d, x[i])
template <class Op>
HWY_INLINE void Map(const float* x, float* y, int64_t n, Op op) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(op(d, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    StoreTail(op(d, LoadTail(d, x + i, rest)), d, y + i, rest);
  }
}

// y[i] = op(d, a[i], b[i])
template <class Op>
HWY_INLINE void Map(const float* a, const float* b, float* y, int64_t n,
                    Op op) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(op(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    StoreTail(op(d, LoadTail(d, a + i, rest), LoadTail(d, b + i, rest)), d,
              y + i, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
