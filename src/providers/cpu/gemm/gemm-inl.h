// SPDX-License-Identifier: Apache-2.0
//
// What the loops of gemm_kernels.cc and gemm_vectors.cc share. Compiled once
// per target.
#if defined(STROP_GEMM_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STROP_GEMM_GEMM_INL_H_
#undef STROP_GEMM_GEMM_INL_H_
#else
#define STROP_GEMM_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/scratch_layout.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Rows of a micro kernel, with two vectors to each: as many sums as there
// are registers, less those for two vectors of B and one element of A.
#if STROP_AVX512
constexpr int kMr = 14;
constexpr int64_t kKc = 256;
constexpr int64_t kMc = 448;
constexpr int64_t kNc = 2048;
// Processors with AVX-512 have a second cache of 1 MB or more.
constexpr int64_t kSweepMc = 112;
constexpr int64_t kSweepNc = 1024;
#elif HWY_TARGET == HWY_AVX2
constexpr int kMr = 6;
constexpr int64_t kKc = 256;
constexpr int64_t kMc = 144;
constexpr int64_t kNc = 2048;
#elif HWY_TARGET == HWY_NEON
constexpr int kMr = 12;
constexpr int64_t kKc = 256;
constexpr int64_t kMc = 144;
constexpr int64_t kNc = 1024;
#else
constexpr int kMr = 4;
constexpr int64_t kKc = 256;
constexpr int64_t kMc = 64;
constexpr int64_t kNc = 512;
#endif
#if !STROP_AVX512
constexpr int64_t kSweepMc = 0;
constexpr int64_t kSweepNc = 0;
#endif
constexpr int64_t kLanes = HWY_LANES(float);
constexpr int64_t kNr = 2 * kLanes;

// Calls f with 0, ..., n - 1 as constants, without a loop.
template <int n, class F>
HWY_INLINE void Unroll(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) HWY_ATTR {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

// What happens to the sums on their way to memory.
struct Store {
  float alpha;
  bool add_c;
  const float* bias;  // at this column, or null
  bool bias_is_scalar;
  bool relu;
};

struct Tile {
  int64_t row_begin, row_end, column_begin, column_end;
};

HWY_INLINE Tile TileOf(const GemmPlan& plan, int64_t index) {
  const GemmProblem& p = plan.problem;
  const int64_t row = index / plan.tile_columns;
  const int64_t column = index % plan.tile_columns;
  const int64_t panels = (p.n + kNr - 1) / kNr;
  const auto begin_of_column = [&](int64_t i) {
    return std::min(p.n, PartStart(panels, plan.tile_columns, i) * kNr);
  };
  return {PartStart(p.m, plan.tile_rows, row),
          PartStart(p.m, plan.tile_rows, row + 1), begin_of_column(column),
          begin_of_column(column + 1)};
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
