// SPDX-License-Identifier: Apache-2.0
//
// MatMul and FusedMatMul: products of the last two axes, for each index of
// the axes before them, which broadcast.
#include <algorithm>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/gemm_kernels.h"
#include "providers/cpu/gemm/kernels.h"

namespace strop {
namespace {

// The batch axes of the result and how A and B are passed through in them;
// a step of 0 repeats.
struct Batch {
  size_t rank = 0;
  int64_t count = 1;
  int64_t sizes[Shape::kMaxRank] = {};
  int64_t a_steps[Shape::kMaxRank] = {};
  int64_t b_steps[Shape::kMaxRank] = {};

  struct Offsets {
    int64_t a = 0;
    int64_t b = 0;
  };
  Offsets At(int64_t index) const {
    Offsets offsets;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t i = index % sizes[axis];
      index /= sizes[axis];
      offsets.a += i * a_steps[axis];
      offsets.b += i * b_steps[axis];
    }
    return offsets;
  }
};

void SetSteps(const Shape& shape, const Batch& batch, int64_t* steps) {
  const size_t rank = shape.rank() - 2;
  int64_t step = shape[rank] * shape[rank + 1];
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = shape[rank - 1 - i];
    steps[batch.rank - 1 - i] = size == 1 ? 0 : step;
    step *= size;
  }
}

Batch BatchOf(const Shape& a, const Shape& b, const Shape& y) {
  Batch batch;
  batch.rank = y.rank() - 2;
  batch.count = y.element_count(0, batch.rank);
  std::copy_n(y.begin(), batch.rank, batch.sizes);
  SetSteps(a, batch, batch.a_steps);
  SetSteps(b, batch, batch.b_steps);
  return batch;
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const GemmProblem& problem, const Batch& batch, int num_threads)
      : batch_(batch), c_step_(problem.m * problem.n) {
    // Threads take whole products as long as there are enough of them.
    const int64_t enough = std::max<int64_t>(1, batch.count);
    const auto per_product =
        static_cast<int>(CeilDiv<int64_t>(num_threads, enough));
    gemm_ = Gemm(problem, per_product);
    const int64_t items = batch.count * gemm_.tile_count();
    parts_ = std::clamp<int64_t>(items, 1, num_threads);
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(parts_) * gemm_.tile_scratch_bytes();
  }
  double flops() const {
    return gemm_.flops() * static_cast<double>(batch_.count);
  }

  void Run(const KernelContext& context) override {
    const float* a = static_cast<const float*>(context.input(0).data());
    const float* b = static_cast<const float*>(context.input(1).data());
    float* c = static_cast<float*>(context.output(0).data());
    const int64_t tiles = gemm_.tile_count();
    const int64_t items = batch_.count * tiles;
    // Each part has scratch of its own. Roughly 50 operations a nanosecond.
    const double cost = flops() / static_cast<double>(parts_) / 50;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        std::byte* scratch =
            context.scratch() + part * gemm_.tile_scratch_bytes();
        const int64_t last = PartBegin(items, parts_, part + 1);
        for (int64_t i = PartBegin(items, parts_, part); i < last; ++i) {
          const auto offsets = batch_.At(i / tiles);
          gemm_.RunTile(i % tiles,
                        {.a = a + offsets.a,
                         .b = b + offsets.b,
                         .c = c + i / tiles * c_step_},
                        scratch);
        }
      }
    });
  }

 private:
  Gemm gemm_;
  Batch batch_;
  int64_t c_step_;
  int64_t parts_ = 1;
};

}  // namespace

KernelChoice ChooseMatMul(const KernelRequest& request) {
  const Shape& a = request.inputs[0].info.shape;
  const Shape& b = request.inputs[1].info.shape;
  const OpNode& node = request.node;
  for (const KernelInput& input : request.inputs.first(2)) {
    if (input.info.type != DataType::kFloat32) {
      return KernelChoice::Decline(DataTypeName(input.info.type));
    }
    if (input.info.shape.rank() < 2) {
      return KernelChoice::Decline("a vector operand");
    }
  }
  if (node.Int("transBatchA", 0) != 0 || node.Int("transBatchB", 0) != 0) {
    return KernelChoice::Decline("transposed batch");
  }
  const bool trans_a = node.Int("transA", 0) != 0;
  const bool trans_b = node.Int("transB", 0) != 0;
  const int64_t a_rows = a[a.rank() - 2];
  const int64_t a_columns = a[a.rank() - 1];
  const int64_t b_rows = b[b.rank() - 2];
  const int64_t b_columns = b[b.rank() - 1];
  GemmProblem problem = GemmProblem::Dense(
      trans_a, trans_b, trans_a ? a_columns : a_rows,
      trans_b ? b_rows : b_columns, trans_a ? a_rows : a_columns,
      node.Float("alpha", 1.0f));
  Batch batch;
  if (b.rank() == 2 && !trans_a) {
    // The batch of A is nothing but more rows.
    problem.m = a.element_count(0, a.rank() - 1);
  } else {
    batch = BatchOf(a, b, request.outputs[0].shape);
  }
  auto kernel =
      std::make_unique<MatMulKernel>(problem, batch, request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.flops = kernel->flops();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
