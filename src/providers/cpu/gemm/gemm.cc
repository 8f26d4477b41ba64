// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/gemm/gemm.h"

#include <algorithm>
#include <utility>

#include "base/round.h"
#include "providers/cpu/gemm/gemm_kernels.h"

namespace strop {
namespace {

constexpr size_t AlignUp(size_t bytes) { return RoundUp<size_t>(bytes, 64); }

// Below this, waking another thread costs more than it saves.
constexpr double kMinTileFlops = 4e5;

// From here on one row of A goes over whole rows of B; in smaller products
// the sums stay in registers.
constexpr int64_t kLargeRowProduct = 1 << 14;
constexpr int64_t kRowColumns = 4096;  // 16 KB: half of the first cache

// The size of n's blocks of about equal size, of at most `most`.
int64_t EvenBlock(int64_t n, int64_t most) {
  const int64_t blocks = std::max<int64_t>(1, CeilDiv(n, most));
  return std::max<int64_t>(1, CeilDiv(n, blocks));
}

// C' = B' A' where C is one column: the long side becomes the vectorized one.
void ExchangeColumn(GemmPlan& plan) {
  GemmProblem& p = plan.problem;
  if (p.n != 1 || p.m == 1 || p.ldc != 1) return;
  plan.exchanged = true;
  const GemmProblem old = p;
  p.trans_a = !old.trans_b;
  p.trans_b = !old.trans_a;
  p.lda = old.ldb;
  p.ldb = old.lda;
  std::swap(p.m, p.n);
  p.ldc = p.n;
}

// One row of A stored as a column of stride 1, or the like for B, is also an
// ordinary row.
void NormalizeVectors(GemmProblem& p) {
  if (p.m == 1 && p.trans_a && p.lda == 1) {
    p.trans_a = false;
    p.lda = p.k;
  }
  if (p.n == 1 && !p.trans_b && p.ldb == 1) {
    p.trans_b = true;
    p.ldb = p.k;
  }
}

void ChoosePath(GemmPlan& plan, const GemmBlocking& blocking) {
  const GemmProblem& p = plan.problem;
  // Measured: beyond these, packing the transposed B pays.
  const bool few_rows = p.m <= 8 || (p.n < blocking.nr && p.m <= 64);
  if (blocking.has_dots && p.trans_b && !p.trans_a && few_rows) {
    plan.path = GemmPath::kDots;
    return;
  }
  if (p.m == 1 && !p.trans_b && p.k * p.n > kLargeRowProduct) {
    plan.path = GemmPath::kRow;
    plan.nc = kRowColumns;
    return;
  }
  plan.pack_b = p.trans_b || (p.m > 4 * blocking.mr && p.k > 8);
  plan.pack_a = p.m > 4 && p.n > blocking.nr;
  // Measured: a transposed A is packed too slowly by few rows.
  plan.sweeps =
      plan.pack_a && plan.pack_b && !p.trans_a && blocking.sweep_mc > 0;
  plan.kc = EvenBlock(p.k, blocking.kc);
  plan.nc = plan.sweeps ? blocking.sweep_nc : blocking.nc;
}

// The grid of tiles whose largest tile costs least: the arithmetic, and the
// packing that each tile does for itself.
void ChooseTiles(GemmPlan& plan, const GemmBlocking& blocking,
                 int num_threads) {
  const GemmProblem& p = plan.problem;
  const double flops = 2.0 * p.m * p.n * p.k;
  const int64_t most = std::clamp<int64_t>(
      static_cast<int64_t>(flops / kMinTileFlops), 1, num_threads);
  const int64_t panels = std::max<int64_t>(1, CeilDiv(p.n, blocking.nr));
  double best = 0;
  for (int64_t rows = 1; rows <= std::min(most, std::max<int64_t>(1, p.m));
       ++rows) {
    const int64_t columns = std::min(most / rows, panels);
    const double tile_m = static_cast<double>(CeilDiv(p.m, rows));
    const double tile_n =
        static_cast<double>(CeilDiv(panels, columns) * blocking.nr);
    const double cost = tile_m * tile_n + (plan.pack_b ? 16 * tile_n : 0) +
                        (plan.pack_a ? 16 * tile_m : 0);
    if (rows > 1 && cost >= best) continue;
    best = cost;
    plan.tile_rows = static_cast<int>(rows);
    plan.tile_columns = static_cast<int>(columns);
  }
}

void ChooseScratch(GemmPlan& plan, const GemmBlocking& blocking) {
  if (plan.path != GemmPath::kPanels) return;
  const GemmProblem& p = plan.problem;
  const int64_t nr = blocking.nr;
  plan.mc = EvenBlock(CeilDiv<int64_t>(p.m, plan.tile_rows),
                      plan.sweeps ? blocking.sweep_mc : blocking.mc);
  if (plan.pack_a) {
    // One vector more, because packing stores whole vectors.
    plan.packed_a_bytes = AlignUp(sizeof(float) * (plan.kc * plan.mc + nr));
  }
  const int64_t panels = CeilDiv(p.n, nr);
  const int64_t tile_columns =
      std::min(plan.nc, CeilDiv<int64_t>(panels, plan.tile_columns) * nr);
  if (plan.pack_b) {
    plan.packed_b_bytes = AlignUp(sizeof(float) * plan.kc * tile_columns);
  } else if (p.n % nr != 0) {
    plan.packed_b_bytes = AlignUp(sizeof(float) * plan.kc * nr);
  }
}

}  // namespace

GemmProblem GemmProblem::Dense(bool trans_a, bool trans_b, int64_t m, int64_t n,
                               int64_t k, float alpha) {
  return {.trans_a = trans_a,
          .trans_b = trans_b,
          .m = m,
          .n = n,
          .k = k,
          .alpha = alpha,
          .lda = trans_a ? m : k,
          .ldb = trans_b ? k : n,
          .ldc = n};
}

Gemm::Gemm(const GemmProblem& problem, int num_threads) {
  const GemmBlocking blocking = GetGemmBlocking();
  plan_.problem = problem;
  ExchangeColumn(plan_);
  NormalizeVectors(plan_.problem);
  ChoosePath(plan_, blocking);
  ChooseTiles(plan_, blocking, num_threads);
  ChooseScratch(plan_, blocking);
  run_tile_ = GetGemmTileFunction(plan_.path);
}

double Gemm::flops() const {
  const GemmProblem& p = plan_.problem;
  return 2.0 * p.m * p.n * p.k;
}

void Gemm::RunTile(int64_t tile, const GemmOperands& operands,
                   std::byte* scratch) const {
  if (!plan_.exchanged) {
    run_tile_(plan_, tile, operands, scratch);
    return;
  }
  GemmOperands exchanged = operands;
  std::swap(exchanged.a, exchanged.b);
  run_tile_(plan_, tile, exchanged, scratch);
}

void Gemm::Run(const KernelContext& context, const GemmOperands& operands,
               std::byte* scratch) const {
  const int64_t tiles = tile_count();
  if (tiles == 1) {
    RunTile(0, operands, scratch);
    return;
  }
  // Roughly 50 operations a nanosecond.
  const double cost = flops() / tiles / 50;
  context.ParallelFor(tiles, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      RunTile(i, operands, scratch + i * tile_scratch_bytes());
    }
  });
}

}  // namespace strop
