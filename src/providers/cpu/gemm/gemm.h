// SPDX-License-Identifier: Apache-2.0
//
// Matrix multiplication on float32, row-major:
//
//   C (m x n) = act(alpha * op(A) * op(B) + bias)      or, accumulating,
//   C += alpha * op(A) * op(B)
//
// A Gemm is made once for a problem and a number of threads; it decides how
// to block and what to pack, and says how much scratch it wants. Running it
// allocates nothing. The work is cut into tiles of C, one for each thread;
// the sum over k is never split, so an element of C is summed in the same
// order however many threads there are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strop/op.h"

namespace strop {

struct GemmProblem {
  bool trans_a = false;  // A is stored as k x m
  bool trans_b = false;  // B is stored as n x k
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  float alpha = 1;
  // Elements from one stored row to the next.
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;

  // The problem with rows that follow each other without gaps.
  static GemmProblem Dense(bool trans_a, bool trans_b, int64_t m, int64_t n,
                           int64_t k, float alpha = 1);
};

struct GemmOperands {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  bool accumulate = false;  // false: what C held is not read
  // Added to each row; null for none. The activation is applied last.
  const float* bias = nullptr;
  bool relu = false;
};

// How the work is done; GemmBlocking and these are for the kernels.
enum class GemmPath : uint8_t {
  // B in panels of a few vectors' columns; each element of A is broadcast.
  kPanels,
  // B transposed and few rows: dot products along k, nothing is packed.
  kDots,
  // One row: the rows of B are added up.
  kRow,
};

struct GemmPlan {
  GemmProblem problem;
  GemmPath path = GemmPath::kPanels;
  bool pack_a = false;
  bool pack_b = false;
  // The packed B is in the second cache: a few rows of A pass all of it.
  bool sweeps = false;
  // n = 1 runs as m = 1 with A and B exchanged; the bias is one element.
  bool exchanged = false;
  int64_t kc = 0;  // steps of k between visits of C
  int64_t mc = 0;  // rows for which A is packed at a time
  int64_t nc = 0;  // columns for which B is packed at a time
  int tile_rows = 1;
  int tile_columns = 1;
  size_t packed_a_bytes = 0;  // per tile
  size_t packed_b_bytes = 0;
};

class Gemm {
 public:
  Gemm() = default;
  Gemm(const GemmProblem& problem, int num_threads);

  // Floating-point operations of one run.
  double flops() const;

  size_t scratch_bytes() const { return tile_count() * tile_scratch_bytes(); }
  // Runs on the threads of `context`. `scratch` is 64-byte aligned.
  void Run(const KernelContext& context, const GemmOperands& operands,
           std::byte* scratch) const;

  // For callers that bring their own loop: each tile may run on any thread,
  // with scratch of its own.
  int64_t tile_count() const {
    return int64_t{plan_.tile_rows} * plan_.tile_columns;
  }
  size_t tile_scratch_bytes() const {
    return plan_.packed_a_bytes + plan_.packed_b_bytes;
  }
  void RunTile(int64_t tile, const GemmOperands& operands,
               std::byte* scratch) const;
  // The same without threads.
  void RunSerial(const GemmOperands& operands, std::byte* scratch) const {
    for (int64_t i = 0; i < tile_count(); ++i) RunTile(i, operands, scratch);
  }

  const GemmPlan& plan() const { return plan_; }

 private:
  using TileFunction = void (*)(const GemmPlan& plan, int64_t tile,
                                const GemmOperands& operands,
                                std::byte* scratch);
  GemmPlan plan_;
  TileFunction run_tile_ = nullptr;
};

}  // namespace strop
