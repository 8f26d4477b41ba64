// SPDX-License-Identifier: Apache-2.0
//
// Transposes a matrix in memory. Compiled once per target.
#if defined(STROP_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_SIMD_TRANSPOSE_INL_H_
#undef STROP_SIMD_TRANSPOSE_INL_H_
#else
#define STROP_SIMD_TRANSPOSE_INL_H_
#endif

#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

constexpr int64_t kVectorLanes = HWY_LANES(float);

#if HWY_TARGET != HWY_SCALAR
using Float4 = hn::FixedTag<float, 4>;

// Four elements from each of kVectorLanes / 4 rows.
HWY_INLINE FloatVec LoadBlocks(const float* in, int64_t stride) {
  const Float4 d4;
#if HWY_MAX_BYTES == 64
  const FloatTag d;
  const hn::Half<FloatTag> half;
  const auto low =
      hn::Combine(half, hn::LoadU(d4, in + stride), hn::LoadU(d4, in));
  const auto high = hn::Combine(half, hn::LoadU(d4, in + 3 * stride),
                                hn::LoadU(d4, in + 2 * stride));
  return hn::Combine(d, high, low);
#elif HWY_MAX_BYTES == 32
  return hn::Combine(FloatTag(), hn::LoadU(d4, in + stride), hn::LoadU(d4, in));
#else
  (void)stride;
  return hn::LoadU(d4, in);
#endif
}

// Transposes a 4 x 4 in each block of four lanes and stores the four results
// `stride` apart.
template <class D>
HWY_INLINE void Transpose4x4(D d, hn::Vec<D> r0, hn::Vec<D> r1, hn::Vec<D> r2,
                             hn::Vec<D> r3, float* out, int64_t stride) {
  const hn::Repartition<double, D> d2;
  const auto a = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1));
  const auto b = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1));
  const auto e = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3));
  const auto f = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a, e)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a, e)), d, out + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, b, f)), d,
             out + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, b, f)), d,
             out + 3 * stride);
}
#endif

// out[k][i] = in[i][k] for `rows` rows and `k` columns.
inline void TransposeBlock(const float* in, int64_t in_stride, int64_t rows,
                           int64_t k, float* out, int64_t out_stride) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // `load` fetches four columns of every fourth of `step` rows.
  const auto pack = [&](auto d, int64_t step, auto load) HWY_ATTR {
    for (; i + step <= rows; i += step) {
      const float* row = in + i * in_stride;
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Transpose4x4(d, load(row + p), load(row + in_stride + p),
                     load(row + 2 * in_stride + p),
                     load(row + 3 * in_stride + p), out + p * out_stride + i,
                     out_stride);
      }
      for (; p < k; ++p) {
        for (int64_t j = 0; j < step; ++j) {
          out[p * out_stride + i + j] = row[j * in_stride + p];
        }
      }
    }
  };
  pack(FloatTag(), kVectorLanes, [=](const float* from) HWY_ATTR {
    return LoadBlocks(from, 4 * in_stride);
  });
  pack(Float4(), 4,
       [](const float* from) HWY_ATTR { return hn::LoadU(Float4(), from); });
#endif
  for (; i < rows; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      out[p * out_stride + i] = in[i * in_stride + p];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
