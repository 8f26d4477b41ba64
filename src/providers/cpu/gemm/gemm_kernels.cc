// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of Gemm.
//
// Panels: B is seen as panels of kNr columns. For each kMr rows of A a micro
// kernel walks along k; at each step it multiplies a few vectors of the
// panel by one broadcast element from each row and keeps the sums in
// registers. The (packed) rows of A stay in the first cache while the panels
// of B, as many as fit into the second, stream past them:
//
//   for nc columns of B:  for kc steps of k:  pack B
//     for kMr rows of A:  pack A
//       for kNr columns:  micro kernel
//
// Dots: see DotTile. One row: see RunRow.
#include "providers/cpu/gemm/gemm_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "providers/cpu/scratch_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/gemm/gemm_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/transpose-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Rows of a micro kernel, with two vectors to each: as many sums as there
// are registers, less those for two vectors of B and one element of A.
#if STROP_AVX512
constexpr int kMr = 14;
constexpr int64_t kKc = 384;
constexpr int64_t kNc = 640;
#elif HWY_TARGET == HWY_AVX2
constexpr int kMr = 6;
constexpr int64_t kKc = 256;
constexpr int64_t kNc = 512;
#elif HWY_TARGET == HWY_NEON
constexpr int kMr = 12;
constexpr int64_t kKc = 256;
constexpr int64_t kNc = 512;
#else
constexpr int kMr = 4;
constexpr int64_t kKc = 256;
constexpr int64_t kNc = 256;
#endif
constexpr int64_t kLanes = HWY_LANES(float);
constexpr int64_t kNr = 2 * kLanes;

GemmBlocking Blocking() {
  return {.mr = kMr,
          .nr = kNr,
          .kc = kKc,
          .nc = kNc,
          .has_dots = HWY_TARGET != HWY_SCALAR};
}

// Calls f with 0, ..., n - 1 as constants, without a loop.
template <int n, class F>
HWY_INLINE void Unroll(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) HWY_ATTR {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, n>());
}

// out[k][i] = in[k][i] for `rows` <= kNr values of i. Writes whole vectors;
// what is too much is overwritten by the next k.
void PackRows(const float* in, int64_t in_stride, int64_t rows, int64_t k,
              float* out, int64_t out_stride) {
  const FloatTag d;
  for (int64_t p = 0; p < k; ++p) {
    int64_t i = 0;
    for (; i + kLanes <= rows; i += kLanes) {
      hn::StoreU(hn::LoadU(d, in + i), d, out + i);
    }
    if (i < rows) {
      hn::StoreU(LoadTail(d, in + i, static_cast<size_t>(rows - i)), d,
                 out + i);
    }
    in += in_stride;
    out += out_stride;
  }
}

// One panel of B: k rows of kNr columns, zero beyond `columns`.
void PackPanelOfB(const GemmProblem& p, const float* b, int64_t k_begin,
                  int64_t k, int64_t column, int64_t columns, float* out) {
  if (columns < kNr) std::fill(out, out + k * kNr, 0.0f);
  if (p.trans_b) {
    TransposeBlock(b + column * p.ldb + k_begin, p.ldb, columns, k, out, kNr);
  } else {
    PackRows(b + k_begin * p.ldb + column, p.ldb, columns, k, out, kNr);
  }
}

void PackPanelOfA(const GemmProblem& p, const float* a, int64_t row,
                  int64_t rows, int64_t k_begin, int64_t k, float* out) {
  if (p.trans_a) {
    PackRows(a + k_begin * p.lda + row, p.lda, rows, k, out, rows);
  } else {
    TransposeBlock(a + row * p.lda + k_begin, p.lda, rows, k, out, rows);
  }
}

// What happens to the sums on their way to memory.
struct Store {
  float alpha;
  bool add_c;
  const float* bias;  // at this column, or null
  bool bias_is_scalar;
  bool relu;
};

// C[0, mr) x [0, vectors * kLanes) = sums over k; `columns` < that many are
// stored.
struct MicroArguments {
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0;  // from a row of A to the next
  int64_t a_k = 0;    // from a step of k to the next
  const float* b = nullptr;
  int64_t b_k = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t columns = 0;
};

template <int mr, int vectors, bool packed_a>
void MicroKernel(const MicroArguments& arguments, const Store& store) {
  const FloatTag d;
  FloatVec sum[mr][vectors];
  Unroll<mr>([&](auto i) HWY_ATTR {
    Unroll<vectors>([&](auto j) HWY_ATTR { sum[i][j] = hn::Zero(d); });
  });

  const float* HWY_RESTRICT b = arguments.b;
  const int64_t b_k = arguments.b_k;
  // A pointer for every third row: the two between are reached by the
  // addressing modes of the processor.
  constexpr int pointers = (mr + 2) / 3;
  const float* a[pointers];
  const int64_t a_row = packed_a ? 1 : arguments.a_row;
  const int64_t a_k = packed_a ? mr : arguments.a_k;
  Unroll<pointers>([&](auto i)
                       HWY_ATTR { a[i] = arguments.a + 3 * i * a_row; });
  for (int64_t p = arguments.k; p != 0; --p) {
    FloatVec column[vectors];
    Unroll<vectors>([&](auto j)
                        HWY_ATTR { column[j] = hn::LoadU(d, b + j * kLanes); });
    b += b_k;
    Unroll<mr>([&](auto i) HWY_ATTR {
      const auto element = hn::Set(d, a[i / 3][i % 3 * a_row]);
      Unroll<vectors>([&](auto j) HWY_ATTR {
        sum[i][j] = hn::MulAdd(element, column[j], sum[i][j]);
      });
    });
    Unroll<pointers>([&](auto i) HWY_ATTR { a[i] += a_k; });
  }

  // The last vector may hang over the edge of C.
  const size_t rest =
      static_cast<size_t>(arguments.columns - (vectors - 1) * kLanes);
  const bool whole = rest == static_cast<size_t>(kLanes);
  float* HWY_RESTRICT c = arguments.c;
  const int64_t ldc = arguments.ldc;
  const auto each = [&](auto f) HWY_ATTR {
    Unroll<mr>([&](auto i) HWY_ATTR {
      Unroll<vectors>([&](auto j) HWY_ATTR { f(i, j); });
    });
  };
  if (store.alpha != 1) {
    const auto alpha = hn::Set(d, store.alpha);
    each([&](auto i, auto j)
             HWY_ATTR { sum[i][j] = hn::Mul(alpha, sum[i][j]); });
  }
  if (store.add_c) {
    each([&](auto i, auto j) HWY_ATTR {
      const float* from = c + i * ldc + j * kLanes;
      const auto old = j < vectors - 1 || whole ? hn::LoadU(d, from)
                                                : LoadTail(d, from, rest);
      sum[i][j] = hn::Add(sum[i][j], old);
    });
  }
  if (store.bias != nullptr) {
    FloatVec bias[vectors];
    Unroll<vectors>([&](auto j) HWY_ATTR {
      const float* from = store.bias + j * kLanes;
      bias[j] = store.bias_is_scalar       ? hn::Set(d, *store.bias)
                : j < vectors - 1 || whole ? hn::LoadU(d, from)
                                           : LoadTail(d, from, rest);
    });
    each([&](auto i, auto j)
             HWY_ATTR { sum[i][j] = hn::Add(sum[i][j], bias[j]); });
  }
  if (store.relu) {
    // Not max(x, 0): a NaN must stay one.
    each([&](auto i, auto j) HWY_ATTR {
      sum[i][j] = hn::IfThenZeroElse(hn::Lt(sum[i][j], hn::Zero(d)), sum[i][j]);
    });
  }
  if (whole) {
    each([&](auto i, auto j)
             HWY_ATTR { hn::StoreU(sum[i][j], d, c + i * ldc + j * kLanes); });
  } else {
    each([&](auto i, auto j) HWY_ATTR {
      float* to = c + i * ldc + j * kLanes;
      if (j < vectors - 1) {
        hn::StoreU(sum[i][j], d, to);
      } else {
        StoreTail(sum[i][j], d, to, rest);
      }
    });
  }
}

using Micro = void (*)(const MicroArguments&, const Store&);

template <bool packed_a, int... i>
constexpr std::array<std::array<Micro, 2>, kMr> MicroKernels(
    std::integer_sequence<int, i...>) {
  return {
      {{MicroKernel<i + 1, 1, packed_a>, MicroKernel<i + 1, 2, packed_a>}...}};
}
// By packed A, rows - 1, vectors - 1.
constexpr std::array<std::array<std::array<Micro, 2>, kMr>, 2> kMicroKernels = {
    MicroKernels<false>(std::make_integer_sequence<int, kMr>()),
    MicroKernels<true>(std::make_integer_sequence<int, kMr>())};

struct Tile {
  int64_t row_begin, row_end, column_begin, column_end;
};

Tile TileOf(const GemmPlan& plan, int64_t index) {
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

// The product of all rows of the tile with one block of B.
void MultiplyBlock(const GemmPlan& plan, const Tile& tile,
                   const GemmOperands& operands, int64_t column_begin,
                   int64_t column_end, int64_t k_begin, int64_t kc,
                   float* packed_a, float* packed_b) {
  const GemmProblem& p = plan.problem;
  // Without packing only the last panel is copied where it is not whole.
  const int64_t copied_from =
      plan.pack_b ? column_begin : column_end / kNr * kNr;
  for (int64_t j = copied_from; j < column_end; j += kNr) {
    PackPanelOfB(p, operands.b, k_begin, kc, j, std::min(kNr, column_end - j),
                 packed_b + (j - copied_from) * kc);
  }

  const bool last = k_begin + kc == p.k;
  Store store = {.alpha = p.alpha,
                 .add_c = operands.accumulate || k_begin > 0,
                 .bias = nullptr,
                 .bias_is_scalar = plan.exchanged,
                 .relu = last && operands.relu};
  MicroArguments arguments = {.k = kc, .ldc = p.ldc};
  const int64_t rows = tile.row_end - tile.row_begin;
  const int64_t parts = (rows + kMr - 1) / kMr;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t row = tile.row_begin + PartStart(rows, parts, part);
    const int64_t mr = tile.row_begin + PartStart(rows, parts, part + 1) - row;
    if (plan.pack_a) {
      PackPanelOfA(p, operands.a, row, mr, k_begin, kc, packed_a);
      arguments.a = packed_a;
    } else {
      arguments.a_row = p.trans_a ? 1 : p.lda;
      arguments.a_k = p.trans_a ? p.lda : 1;
      arguments.a =
          operands.a + row * arguments.a_row + k_begin * arguments.a_k;
    }
    const auto& kernels = kMicroKernels[plan.pack_a][mr - 1];
    for (int64_t j = column_begin; j < column_end; j += kNr) {
      if (j >= copied_from) {
        arguments.b = packed_b + (j - copied_from) * kc;
        arguments.b_k = kNr;
      } else {
        arguments.b = operands.b + k_begin * p.ldb + j;
        arguments.b_k = p.ldb;
      }
      arguments.c = operands.c + row * p.ldc + j;
      arguments.columns = std::min(kNr, column_end - j);
      if (last && operands.bias != nullptr) {
        store.bias = operands.bias + (plan.exchanged ? 0 : j);
      }
      kernels[arguments.columns > kLanes](arguments, store);
    }
  }
}

void RunPanels(const GemmPlan& plan, int64_t index,
               const GemmOperands& operands, std::byte* scratch) {
  const Tile tile = TileOf(plan, index);
  if (tile.row_begin == tile.row_end) return;
  float* packed_a = reinterpret_cast<float*>(scratch);
  float* packed_b = reinterpret_cast<float*>(scratch + plan.packed_a_bytes);
  for (int64_t j = tile.column_begin; j < tile.column_end; j += plan.nc) {
    const int64_t end = std::min(j + plan.nc, tile.column_end);
    int64_t k = 0;
    do {  // once for k = 0 too: C must be written
      const int64_t kc = std::min(plan.kc, plan.problem.k - k);
      MultiplyBlock(plan, tile, operands, j, end, k, kc, packed_a, packed_b);
      k += kc;
    } while (k < plan.problem.k);
  }
}

// --- A packed B

// The panels of a block of k follow each other, then come those of the next.
void PackPanels(const PackedGemmPlan& plan, const float* b, int64_t begin,
                int64_t end, float* packed) {
  const GemmProblem p = {.trans_b = plan.trans_b, .ldb = plan.ldb};
  for (int64_t k = 0; k < plan.k; k += plan.kc) {
    const int64_t kc = std::min(plan.kc, plan.k - k);
    for (int64_t i = begin; i < end; ++i) {
      PackPanelOfB(p, b, k, kc, i * kNr, std::min(kNr, plan.n - i * kNr),
                   packed + i * kc * kNr);
    }
    packed += plan.panels * kc * kNr;
  }
}

// A panel of B stays in the first cache while all rows pass it: A is small.
void RunPacked(const PackedGemmPlan& plan, const PackedGemmOperands& operands) {
  const int64_t m = operands.m;
  const int64_t parts = (m + kMr - 1) / kMr;
  MicroArguments arguments = {
      .a_row = operands.lda,
      .a_k = 1,
      .b = reinterpret_cast<const float*>(operands.packed_b),
      .b_k = kNr,
      .ldc = operands.ldc};
  int64_t k = 0;
  do {  // once for k = 0 too: C must be written
    arguments.k = std::min(plan.kc, plan.k - k);
    const Store store = {.alpha = 1,
                         .add_c = operands.accumulate || k > 0,
                         .bias = nullptr,
                         .bias_is_scalar = false,
                         .relu = false};
    for (int64_t j = 0; j < plan.n; j += kNr) {
      arguments.columns = std::min(kNr, plan.n - j);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t row = PartStart(m, parts, part);
        const int64_t mr = PartStart(m, parts, part + 1) - row;
        arguments.a = operands.a + row * operands.lda + k;
        arguments.c = operands.c + row * operands.ldc + j;
        kMicroKernels[0][mr - 1][arguments.columns > kLanes](arguments, store);
      }
      arguments.b += arguments.k * kNr;
    }
    k += plan.kc;
  } while (k < plan.k);
}

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
HWY_EXPORT(Blocking);
HWY_EXPORT(RunPanels);
HWY_EXPORT(RunDots);
HWY_EXPORT(RunRow);
HWY_EXPORT(PackPanels);
HWY_EXPORT(RunPacked);
}  // namespace

GemmBlocking GetGemmBlocking() { return HWY_DYNAMIC_DISPATCH(Blocking)(); }

GemmTileFunction GetGemmTileFunction(GemmPath path) {
  // The first call of this program chooses the instruction set; only after
  // it do the tables give the functions themselves.
  GetGemmBlocking();
  switch (path) {
    case GemmPath::kDots:
      return &HWY_DYNAMIC_DISPATCH(RunDots);
    case GemmPath::kRow:
      return &HWY_DYNAMIC_DISPATCH(RunRow);
    default:
      return &HWY_DYNAMIC_DISPATCH(RunPanels);
  }
}

PackFunction GetPackFunction() {
  GetGemmBlocking();
  return &HWY_DYNAMIC_DISPATCH(PackPanels);
}

PackedGemmFunction GetPackedGemmFunction() {
  GetGemmBlocking();
  return &HWY_DYNAMIC_DISPATCH(RunPacked);
}

}  // namespace strop
#endif  // HWY_ONCE
