// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of Gemm.
//
// Panels: B is seen as panels of kNr columns. For each kMr rows of A a micro
// kernel walks along k; at each step it multiplies a few vectors of the
// panel by one broadcast element from each row and keeps the sums in
// registers. A panel of B stays in the first cache while the rows of A, as
// many as fit into the second when packed, stream past it:
//
//   for nc columns of B:  for kc steps of k:
//     for mc rows of A:  pack A
//       for kNr columns:  the first time, pack the panel of B
//         for kMr rows:  micro kernel
//
// so each element is packed about once. Where the second cache is large the
// two inner loops are exchanged once B is packed (GemmPlan::sweeps): the rows
// of A stay in the first cache, the panels of B stream past them from the
// second, and C is written along its rows. What is packed next is far from the
// processor as a rule; it is prefetched meanwhile, see Prefetcher.
//
// The other ways are in gemm_vectors.cc.
#include "providers/cpu/gemm/gemm_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hwy/cache_control.h"
#include "providers/cpu/scratch_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/gemm/gemm_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/gemm/gemm-inl.h"
#include "providers/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

GemmBlocking Blocking() {
  return {.mr = kMr,
          .nr = kNr,
          .kc = kKc,
          .mc = kMc,
          .nc = kNc,
          .sweep_mc = kSweepMc,
          .sweep_nc = kSweepNc,
          .has_dots = HWY_TARGET != HWY_SCALAR};
}

constexpr int64_t kLineFloats = 16;  // of a cache line

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

// `rows` <= kMr rows of A. Like PackRows, writes whole vectors.
void PackPanelOfA(const GemmProblem& p, const float* a, int64_t row,
                  int64_t rows, int64_t k_begin, int64_t k, float* out) {
  if (p.trans_a) {
    PackRows(a + k_begin * p.lda + row, p.lda, rows, k, out, rows);
    return;
  }
  // Whole vectors are transposed faster: the rows below are read too where
  // there are any, and the next k overwrites what is too much.
  const bool as_vector = rows < kLanes && row + kLanes <= p.m;
  TransposeBlock(a + row * p.lda + k_begin, p.lda, as_vector ? kLanes : rows, k,
                 out, rows);
}

// Steps of k between two turns of fetching.
constexpr int64_t kTurnSteps = kMr > 8 ? 4 : 8;

// The turns that a micro kernel of kc steps has for each operand's next part,
// after those for C. Measured: more than these bring too much too early.
constexpr int64_t OperandTurns(int64_t kc) {
  return std::clamp<int64_t>((kc / kTurnSteps - kMr) / 2, 2, 14);
}

// Lines of memory that a micro kernel fetches into the caches while it
// computes: two at `at`, `step` elements further the next two, and so on. All
// at once they would hold up the loads of the micro kernel.
struct FetchList {
  const float* at = nullptr;
  int64_t step = 0;
  int64_t turns = INT64_MAX;

  HWY_INLINE void Turn() {
    hwy::Prefetch(at);
    hwy::Prefetch(at + kLineFloats);
    at += step;
  }
};

// Spreads the fetches of a part of a matrix over the calls of a micro kernel.
class Prefetcher {
 public:
  // `nothing` is an address to fetch where there is nothing else.
  static Prefetcher Nothing(const float* nothing) {
    return Prefetcher(nothing, 0, 1, 1);
  }
  Prefetcher(const float* from, int64_t stride, int64_t rows, int64_t columns,
             int64_t turns = 1)
      : from_(from), stride_(stride), rows_(rows), turns_(turns) {
    // A narrow row is fetched in one turn, a wide one in one or more calls.
    if (columns > 2 * kLineFloats) {
      parts_ =
          (columns + 2 * kLineFloats * turns - 1) / (2 * kLineFloats * turns);
    }
  }

  // For call number `call` of `calls`.
  FetchList ListOf(int64_t call, int64_t calls) const {
    if (parts_ == 0) {
      return {from_ + call * rows_ / calls * stride_, stride_, turns_};
    }
    const int64_t part = call * rows_ * parts_ / calls;
    return {from_ + part / parts_ * stride_ +
                part % parts_ * 2 * kLineFloats * turns_,
            2 * kLineFloats, turns_};
  }

 private:
  const float* from_;
  int64_t stride_;
  int64_t rows_;
  int64_t turns_;      // of one call
  int64_t parts_ = 0;  // of a wide row
};

// Rows of A, or columns of B, as they lie in memory.
Prefetcher PrefetchA(const GemmProblem& p, const float* a, int64_t row,
                     int64_t rows, int64_t k_begin, int64_t k) {
  return p.trans_a ? Prefetcher(a + k_begin * p.lda + row, p.lda, k, rows,
                                OperandTurns(k))
                   : Prefetcher(a + row * p.lda + k_begin, p.lda, rows, k,
                                OperandTurns(k));
}

Prefetcher PrefetchB(const GemmProblem& p, const float* b, int64_t column,
                     int64_t columns, int64_t k_begin, int64_t k) {
  return p.trans_b ? Prefetcher(b + column * p.ldb + k_begin, p.ldb, columns, k,
                                OperandTurns(k))
                   : Prefetcher(b + k_begin * p.ldb + column, p.ldb, k, columns,
                                OperandTurns(k));
}

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
  // What comes after these rows and columns.
  FetchList next_a = {};
  FetchList next_b = {};
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
  // C is wanted first. The last list repeats one line for ever.
  const FetchList lists[] = {{arguments.c, arguments.ldc, mr},
                             arguments.next_a,
                             arguments.next_b,
                             {arguments.c, 0}};
  const FetchList* list = lists;
  FetchList fetch = *list;
  for (int64_t p = arguments.k; p != 0; --p) {
    if (p % kTurnSteps == 0) {
      fetch.Turn();
      if (--fetch.turns == 0) fetch = *++list;
    }
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

// A part of A times a part of B.
struct Block {
  int64_t row_begin, row_end, column_begin, column_end, k_begin, kc;

  int64_t rows() const { return row_end - row_begin; }
  int64_t panels() const { return (column_end - column_begin + kNr - 1) / kNr; }
  // The rows are cut into parts of kMr or a little less.
  int64_t parts() const { return (rows() + kMr - 1) / kMr; }
  int64_t RowOfPart(int64_t part) const {
    return row_begin + PartStart(rows(), parts(), part);
  }
};

// What a thread does for its tile of C.
class PanelRun {
 public:
  PanelRun(const GemmPlan& plan, const GemmOperands& operands,
           std::byte* scratch)
      : plan_(plan),
        p_(plan.problem),
        operands_(operands),
        packed_a_(reinterpret_cast<float*>(scratch)),
        packed_b_(reinterpret_cast<float*>(scratch + plan.packed_a_bytes)) {}

  void Run(const Tile& tile) {
    for (int64_t j = tile.column_begin; j < tile.column_end; j += plan_.nc) {
      const int64_t j_end = std::min(j + plan_.nc, tile.column_end);
      int64_t k = 0;
      do {  // once for k = 0 too: C must be written
        const int64_t kc = std::min(plan_.kc, p_.k - k);
        for (int64_t i = tile.row_begin; i < tile.row_end; i += plan_.mc) {
          const Block block = {.row_begin = i,
                               .row_end = std::min(i + plan_.mc, tile.row_end),
                               .column_begin = j,
                               .column_end = j_end,
                               .k_begin = k,
                               .kc = kc};
          if (plan_.pack_a) {
            MultiplyPacked(block, tile);
          } else {
            MultiplyInPlace(block, tile);
          }
        }
        k += kc;
      } while (k < p_.k);
    }
  }

 private:
  // A is read as it lies.
  void MultiplyInPlace(const Block& block, const Tile& tile) {
    const FetchList nothing = {operands_.c, 0};
    const bool first = block.row_begin == tile.row_begin;
    for (int64_t j = block.column_begin; first && j < block.column_end;
         j += kNr) {
      PackB(block, j);
    }
    for (int64_t part = 0; part < block.parts(); ++part) {
      for (int64_t j = block.column_begin; j < block.column_end; j += kNr) {
        MultiplyPanel(block, part, j, nothing, nothing);
      }
    }
  }

  void MultiplyPacked(const Block& block, const Tile& tile) {
    PackA(block);
    const bool first = block.row_begin == tile.row_begin;
    const Prefetcher next_a = NextA(block, tile);
    if (plan_.sweeps && !first) {
      Sweep(block, next_a);
      return;
    }
    const int64_t parts = block.parts();
    const int64_t calls = parts * block.panels();
    int64_t call = 0;
    for (int64_t j = block.column_begin; j < block.column_end; j += kNr) {
      if (first) PackB(block, j);
      const Prefetcher next_b = NextB(block, j + kNr, first);
      for (int64_t part = 0; part < parts; ++part, ++call) {
        MultiplyPanel(block, part, j, next_a.ListOf(call, calls),
                      next_b.ListOf(part, parts));
      }
    }
  }

  void Sweep(const Block& block, const Prefetcher& next_a) {
    const FetchList nothing = {operands_.c, 0};
    const int64_t parts = block.parts();
    const int64_t calls = parts * block.panels();
    int64_t call = 0;
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t j = block.column_begin; j < block.column_end;
           j += kNr, ++call) {
        MultiplyPanel(block, part, j, next_a.ListOf(call, calls), nothing);
      }
    }
  }

  void PackA(const Block& block) {
    for (int64_t part = 0; part < block.parts(); ++part) {
      const int64_t row = block.RowOfPart(part);
      PackPanelOfA(p_, operands_.a, row, block.RowOfPart(part + 1) - row,
                   block.k_begin, block.kc,
                   packed_a_ + (row - block.row_begin) * block.kc);
    }
  }

  // Without packing only the last panel is copied where it is not whole.
  bool IsPackedB(const Block& block, int64_t column) const {
    return plan_.pack_b || column + kNr > block.column_end;
  }
  float* PackedB(const Block& block, int64_t column) const {
    return packed_b_ +
           (plan_.pack_b ? (column - block.column_begin) * block.kc : 0);
  }
  void PackB(const Block& block, int64_t column) {
    if (!IsPackedB(block, column)) return;
    PackPanelOfB(p_, operands_.b, block.k_begin, block.kc, column,
                 std::min(kNr, block.column_end - column),
                 PackedB(block, column));
  }

  // What PackA will read next.
  Prefetcher NextA(const Block& block, const Tile& tile) const {
    int64_t row = block.row_end;
    int64_t k = block.k_begin;
    if (row == tile.row_end) {
      row = tile.row_begin;
      k += block.kc;
      if (k == p_.k) return Prefetcher::Nothing(operands_.c);
    }
    return PrefetchA(p_, operands_.a, row,
                     std::min(plan_.mc, tile.row_end - row), k,
                     std::min(plan_.kc, p_.k - k));
  }

  // The panel at `column`, packed or not yet.
  Prefetcher NextB(const Block& block, int64_t column, bool first) const {
    if (column >= block.column_end) return Prefetcher::Nothing(operands_.c);
    if (!first && IsPackedB(block, column)) {
      return Prefetcher(PackedB(block, column), kNr, block.kc, kNr,
                        OperandTurns(block.kc));
    }
    return PrefetchB(p_, operands_.b, column,
                     std::min(kNr, block.column_end - column), block.k_begin,
                     block.kc);
  }

  void MultiplyPanel(const Block& block, int64_t part, int64_t column,
                     FetchList next_a, FetchList next_b) {
    const int64_t row = block.RowOfPart(part);
    const int64_t mr = block.RowOfPart(part + 1) - row;
    const bool last = block.k_begin + block.kc == p_.k;
    const float* const bias = last ? operands_.bias : nullptr;
    const Store store = {
        .alpha = p_.alpha,
        .add_c = operands_.accumulate || block.k_begin > 0,
        .bias = bias != nullptr && !plan_.exchanged ? bias + column : bias,
        .bias_is_scalar = plan_.exchanged,
        .relu = last && operands_.relu};
    MicroArguments arguments = {
        .k = block.kc,
        .c = operands_.c + row * p_.ldc + column,
        .ldc = p_.ldc,
        .columns = std::min(kNr, block.column_end - column),
        .next_a = next_a,
        .next_b = next_b};
    if (plan_.pack_a) {
      arguments.a = packed_a_ + (row - block.row_begin) * block.kc;
    } else {
      arguments.a_row = p_.trans_a ? 1 : p_.lda;
      arguments.a_k = p_.trans_a ? p_.lda : 1;
      arguments.a =
          operands_.a + row * arguments.a_row + block.k_begin * arguments.a_k;
    }
    if (IsPackedB(block, column)) {
      arguments.b = PackedB(block, column);
      arguments.b_k = kNr;
    } else {
      arguments.b = operands_.b + block.k_begin * p_.ldb + column;
      arguments.b_k = p_.ldb;
    }
    kMicroKernels[plan_.pack_a][mr - 1][arguments.columns > kLanes](arguments,
                                                                    store);
  }

  const GemmPlan& plan_;
  const GemmProblem& p_;
  const GemmOperands& operands_;
  float* packed_a_;
  float* packed_b_;
};

void RunPanels(const GemmPlan& plan, int64_t index,
               const GemmOperands& operands, std::byte* scratch) {
  PanelRun(plan, operands, scratch).Run(TileOf(plan, index));
}

// --- A packed B

// The panels of a block of k follow each other, then come those of the next.
void PackPanels(const PackedGemmPlan& plan, const float* b, int64_t begin,
                int64_t end, int64_t k_end, float* packed) {
  const GemmProblem p = {.trans_b = plan.trans_b, .ldb = plan.ldb};
  k_end = std::min(k_end, plan.k);
  for (int64_t k = 0; k < k_end; k += plan.kc) {
    const int64_t kc = std::min(plan.kc, plan.k - k);
    for (int64_t i = begin; i < end; ++i) {
      PackPanelOfB(p, b, k, std::min(kc, k_end - k), i * kNr,
                   std::min(kNr, plan.n - i * kNr), packed + i * kc * kNr);
    }
    packed += plan.panels * kc * kNr;
  }
}

// A panel of B stays in the first cache while all rows pass it.
void RunPacked(const PackedGemmPlan& plan, const PackedGemmOperands& operands) {
  const int64_t m = operands.m;
  const int64_t n = std::min(operands.n, plan.n);
  const int64_t k_end = std::min(operands.k, plan.k);
  const int64_t parts = (m + kMr - 1) / kMr;
  MicroArguments arguments = {.a_row = operands.a_row,
                              .a_k = operands.a_k,
                              .b_k = kNr,
                              .ldc = operands.ldc};
  const float* panels = reinterpret_cast<const float*>(operands.packed_b);
  int64_t k = 0;
  do {  // once for k = 0 too: C must be written
    // As it was packed; fewer steps of it may be wanted.
    const int64_t packed_kc = std::min(plan.kc, plan.k - k);
    arguments.k = std::min(packed_kc, k_end - k);
    const Store store = {.alpha = operands.alpha,
                         .add_c = operands.accumulate || k > 0,
                         .bias = nullptr,
                         .bias_is_scalar = false,
                         .relu = false};
    for (int64_t j = 0; j < n; j += kNr) {
      arguments.b = panels + j * packed_kc;
      arguments.columns = std::min(kNr, n - j);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t row = PartStart(m, parts, part);
        const int64_t mr = PartStart(m, parts, part + 1) - row;
        arguments.a = operands.a + row * operands.a_row + k * operands.a_k;
        arguments.c = operands.c + row * operands.ldc + j;
        arguments.next_a = arguments.next_b = {arguments.c, 0};
        kMicroKernels[0][mr - 1][arguments.columns > kLanes](arguments, store);
      }
    }
    panels += plan.panels * packed_kc * kNr;
    k += plan.kc;
  } while (k < k_end);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(Blocking);
HWY_EXPORT(RunPanels);
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
      return GetDotsFunction();
    case GemmPath::kRow:
      return GetRowFunction();
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
