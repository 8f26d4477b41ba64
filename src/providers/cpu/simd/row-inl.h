// SPDX-License-Identifier: Apache-2.0
//
// Loops over the vectors of a row, for kernels that read and write several
// rows at once. Compiled once per target.
#if defined(STROP_SIMD_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_SIMD_ROW_INL_H_
#undef STROP_SIMD_ROW_INL_H_
#else
#define STROP_SIMD_ROW_INL_H_
#endif

#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// One vector's place in a row of at least i + Lanes elements.
struct WholeAt {
  int64_t i;

  HWY_INLINE FloatVec Load(const float* row) const {
    return hn::LoadU(FloatTag(), row + i);
  }
  HWY_INLINE void Store(FloatVec v, float* row) const {
    hn::StoreU(v, FloatTag(), row + i);
  }
  // `v` with `other` in the lanes beyond the row.
  HWY_INLINE FloatVec Or(FloatVec v, FloatVec) const { return v; }
};

// The last `count` < Lanes elements of a row.
struct TailAt {
  int64_t i;
  size_t count;

  HWY_INLINE FloatVec Load(const float* row) const {
    return LoadTail(FloatTag(), row + i, count);
  }
  HWY_INLINE void Store(FloatVec v, float* row) const {
    StoreTail(v, FloatTag(), row + i, count);
  }
  HWY_INLINE FloatVec Or(FloatVec v, FloatVec other) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), count), v, other);
  }
};

// Calls f(at) for each vector of a row of n elements.
template <class F>
HWY_INLINE void ForEachVector(int64_t n, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(WholeAt{i});
  if (i < n) f(TailAt{i, static_cast<size_t>(n - i)});
}

// Calls f(at, sums) for each vector of a row; f adds to the `count` vectors
// `sums`, of which there are four sets that are added up at the end.
template <int count, class F>
HWY_INLINE void SumOverRow(int64_t n, F f, float (&result)[count]) {
  constexpr int kSets = 4;
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sums[kSets][count];
  for (auto& set : sums) {
    for (int j = 0; j < count; ++j) set[j] = hn::Zero(d);
  }
  int64_t i = 0;
  for (; i + kSets * lanes <= n; i += kSets * lanes) {
    for (int set = 0; set < kSets; ++set) {
      f(WholeAt{i + set * lanes}, sums[set]);
    }
  }
  for (; i + lanes <= n; i += lanes) f(WholeAt{i}, sums[0]);
  if (i < n) f(TailAt{i, static_cast<size_t>(n - i)}, sums[1]);
  for (int j = 0; j < count; ++j) {
    const auto sum = hn::Add(hn::Add(sums[0][j], sums[1][j]),
                             hn::Add(sums[2][j], sums[3][j]));
    result[j] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
