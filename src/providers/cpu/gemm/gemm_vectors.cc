// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of a Gemm of few rows, which packs nothing: dot products, see
// DotTile, and one row, see RunRow.
#include <algorithm>

#include "providers/cpu/gemm/gemm_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/gemm/gemm_vectors.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/gemm/gemm-inl.h"
#include "providers/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// --- Dot products

#if HWY_TARGET == HWY_SCALAR
void RunDots(const GemmPlan&, int64_t, const GemmOperands&, std::byte*) {}
#else

// The sums of the lanes of four vectors, as a vector of four.
HWY_INLINE hn::Vec<Float4> SumLanesOf4(FloatVec v0, FloatVec v1, FloatVec v2,
                                       FloatVec v3) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> d2;
  // In each block of four lanes: two sums for each of the vectors.
  const auto a = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, v0, v1),
                                         hn::InterleaveUpper(d, v0, v1)));
  const auto b = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, v2, v3),
                                         hn::InterleaveUpper(d, v2, v3)));
  const auto sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, a, b)),
                            hn::BitCast(d, hn::InterleaveUpper(d2, a, b)));
#if HWY_MAX_BYTES == 64
  const hn::Half<FloatTag> half;
  const hn::Half<decltype(half)> quarter;
  const auto s = hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums));
  return hn::Add(hn::LowerHalf(quarter, s), hn::UpperHalf(quarter, s));
#elif HWY_MAX_BYTES == 32
  const hn::Half<FloatTag> half;
  return hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums));
#else
  return sums;
#endif
}

HWY_INLINE void StoreDots(hn::Vec<Float4> sums, float* c, int64_t columns,
                          const Store& store) {
  const Float4 d;
  // At the edge the detour over a buffer keeps one way of computing.
  HWY_ALIGN float edge_c[4] = {};
  HWY_ALIGN float edge_bias[4] = {};
  const float* bias = store.bias;
  float* to = c;
  if (columns < 4) {
    to = edge_c;
    if (store.add_c) std::copy(c, c + columns, edge_c);
    if (bias != nullptr && !store.bias_is_scalar) {
      std::copy(bias, bias + columns, edge_bias);
      bias = edge_bias;
    }
  }
  sums = hn::Mul(sums, hn::Set(d, store.alpha));
  if (store.add_c) sums = hn::Add(sums, hn::LoadU(d, to));
  if (bias != nullptr) {
    sums = hn::Add(
        sums, store.bias_is_scalar ? hn::Set(d, *bias) : hn::LoadU(d, bias));
  }
  if (store.relu) {
    sums = hn::IfThenZeroElse(hn::Lt(sums, hn::Zero(d)), sums);
  }
  hn::StoreU(sums, d, to);
  if (columns < 4) std::copy(edge_c, edge_c + columns, c);
}

// Rows of A times four rows of the transposed B, all read along k. Where
// there are fewer than four, the last is repeated and not stored.
template <int rows>
void DotTile(const GemmProblem& p, const float* a, const float* b, float* c,
             int64_t columns, const Store& store) {
  const FloatTag d;
  FloatVec sum[rows][4];
  Unroll<rows>([&](auto i) HWY_ATTR {
    Unroll<4>([&](auto j) HWY_ATTR { sum[i][j] = hn::Zero(d); });
  });
  const float* b_row[4];
  Unroll<4>([&](auto j) HWY_ATTR {
    b_row[j] = b + std::min<int64_t>(j, columns - 1) * p.ldb;
  });
  const auto step = [&](auto load, int64_t k) HWY_ATTR {
    FloatVec column[4];
    Unroll<4>([&](auto j) HWY_ATTR { column[j] = load(b_row[j] + k); });
    Unroll<rows>([&](auto i) HWY_ATTR {
      const auto row = load(a + i * p.lda + k);
      Unroll<4>([&](auto j) HWY_ATTR {
        sum[i][j] = hn::MulAdd(row, column[j], sum[i][j]);
      });
    });
  };
  int64_t k = 0;
  for (; k + kLanes <= p.k; k += kLanes) {
    step([d](const float* at) HWY_ATTR { return hn::LoadU(d, at); }, k);
  }
  if (k < p.k) {
    const size_t rest = static_cast<size_t>(p.k - k);
    step([=](const float* at) HWY_ATTR { return LoadTail(d, at, rest); }, k);
  }
  Unroll<rows>([&](auto i) HWY_ATTR {
    StoreDots(SumLanesOf4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]),
              c + i * p.ldc, columns, store);
  });
}

void RunDots(const GemmPlan& plan, int64_t index, const GemmOperands& operands,
             std::byte*) {
  const GemmProblem& p = plan.problem;
  const Tile tile = TileOf(plan, index);
  Store store = {.alpha = p.alpha,
                 .add_c = operands.accumulate,
                 .bias = nullptr,
                 .bias_is_scalar = plan.exchanged,
                 .relu = operands.relu};
  constexpr int kRows = kMr >= 12 ? 4 : 2;  // what the registers hold
  for (int64_t j = tile.column_begin; j < tile.column_end; j += 4) {
    const int64_t columns = std::min<int64_t>(4, tile.column_end - j);
    const float* b = operands.b + j * p.ldb;
    if (operands.bias != nullptr) {
      store.bias = operands.bias + (plan.exchanged ? 0 : j);
    }
    int64_t i = tile.row_begin;
    for (; i + kRows <= tile.row_end; i += kRows) {
      DotTile<kRows>(p, operands.a + i * p.lda, b, operands.c + i * p.ldc + j,
                     columns, store);
    }
    for (; i < tile.row_end; ++i) {
      DotTile<1>(p, operands.a + i * p.lda, b, operands.c + i * p.ldc + j,
                 columns, store);
    }
  }
}
#endif  // HWY_TARGET != HWY_SCALAR

// --- One row

// c[0, n) += a[0] b[0][0, n) + ... + a[steps - 1] b[steps - 1][0, n)
template <int steps>
void AddRows(const float* a, int64_t a_k, float alpha, const float* b,
             int64_t ldb, float* HWY_RESTRICT c, int64_t n) {
  const FloatTag d;
  FloatVec factor[steps];
  Unroll<steps>([&](auto i)
                    HWY_ATTR { factor[i] = hn::Set(d, alpha * a[i * a_k]); });
  const auto add = [&](FloatVec sum, auto load) HWY_ATTR {
    Unroll<steps>([&](auto i) HWY_ATTR {
      sum = hn::MulAdd(factor[i], load(b + i * ldb), sum);
    });
    return sum;
  };
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const auto sum = add(hn::LoadU(d, c + j), [=](const float* row) HWY_ATTR {
      return hn::LoadU(d, row + j);
    });
    hn::StoreU(sum, d, c + j);
  }
  if (j < n) {
    const size_t rest = static_cast<size_t>(n - j);
    const auto sum = add(LoadTail(d, c + j, rest),
                         [=](const float* row)
                             HWY_ATTR { return LoadTail(d, row + j, rest); });
    StoreTail(sum, d, c + j, rest);
  }
}

// A large B is read once, row by row, which is what prefetching is made for;
// C stays in the first cache meanwhile.
void RunRow(const GemmPlan& plan, int64_t index, const GemmOperands& operands,
            std::byte*) {
  constexpr int kSteps = 8;
  const GemmProblem& p = plan.problem;
  const Tile tile = TileOf(plan, index);
  const int64_t a_k = p.trans_a ? p.lda : 1;
  for (int64_t j = tile.column_begin; j < tile.column_end; j += plan.nc) {
    const int64_t n = std::min(plan.nc, tile.column_end - j);
    float* c = operands.c + j;
    if (!operands.accumulate) std::fill_n(c, n, 0.0f);
    int64_t k = 0;
    for (; k + kSteps <= p.k; k += kSteps) {
      AddRows<kSteps>(operands.a + k * a_k, a_k, p.alpha,
                      operands.b + k * p.ldb + j, p.ldb, c, n);
    }
    for (; k < p.k; ++k) {
      AddRows<1>(operands.a + k * a_k, a_k, p.alpha, operands.b + k * p.ldb + j,
                 p.ldb, c, n);
    }
    for (int64_t i = 0; i < n && operands.bias != nullptr; ++i) {
      c[i] += operands.bias[plan.exchanged ? 0 : j + i];
    }
    for (int64_t i = 0; i < n && operands.relu; ++i) {
      c[i] = c[i] < 0 ? 0 : c[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(RunDots);
HWY_EXPORT(RunRow);
}  // namespace

GemmTileFunction GetDotsFunction() { return &HWY_DYNAMIC_DISPATCH(RunDots); }
GemmTileFunction GetRowFunction() { return &HWY_DYNAMIC_DISPATCH(RunRow); }

}  // namespace strop
#endif  // HWY_ONCE
