// SPDX-License-Identifier: Apache-2.0
//
// MatMul, FusedMatMul and the internal MatMul: products of the last two axes,
// for each index of the axes before them, which broadcast. Tensors are read
// and written as they lie: an order of axes that the internal MatMul brings
// is a matter of steps.
#include <algorithm>
#include <memory>
#include <string>

#include "base/round.h"
#include "ops/op_util.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/gemm/kernels.h"
#include "providers/cpu/scratch_layout.h"
#include "providers/cpu/simd/softmax.h"

namespace strop {
namespace {

// An axis of the stack of products and how far apart its neighbours stand in
// A, B and C; a step of 0 repeats.
struct BatchAxis {
  int64_t size = 1;
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

struct Offsets {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

struct Batch {
  size_t rank = 0;
  BatchAxis axes[Shape::kMaxRank] = {};

  int64_t count() const {
    int64_t product = 1;
    for (size_t i = 0; i < rank; ++i) product *= axes[i].size;
    return product;
  }
  Offsets At(int64_t index) const {
    Offsets offsets;
    for (size_t i = rank; i-- > 0;) {
      const BatchAxis& axis = axes[i];
      const int64_t at = index % axis.size;
      index /= axis.size;
      offsets.a += at * axis.a;
      offsets.b += at * axis.b;
      offsets.c += at * axis.c;
    }
    return offsets;
  }
};

// A stack of matrices in a tensor whose axes an attribute may order.
struct Stack {
  size_t rank = 0;
  int64_t sizes[Shape::kMaxRank] = {};
  int64_t steps[Shape::kMaxRank] = {};

  int64_t row_step() const { return steps[rank - 2]; }
  int64_t column_step() const { return steps[rank - 1]; }
  int64_t rows() const { return sizes[rank - 2]; }
  int64_t columns() const { return sizes[rank - 1]; }

  void Transpose() {
    std::swap(sizes[rank - 2], sizes[rank - 1]);
    std::swap(steps[rank - 2], steps[rank - 1]);
  }
  // The step along the batch axis that is `from_last` before the rows.
  int64_t BatchStep(size_t from_last) const {
    if (from_last + 3 > rank) return 0;
    const size_t axis = rank - 3 - from_last;
    return sizes[axis] == 1 ? 0 : steps[axis];
  }
};

// A stack of operands: its axis i is axis perm[i] of the tensor. One of
// results: its axis perm[i] is axis i of the tensor.
enum class Role { kOperand, kResult };

Stack ReadStack(const Shape& shape, std::span<const int64_t> perm, Role role) {
  Stack stack;
  stack.rank = shape.rank();
  for (size_t i = 0; i < stack.rank; ++i) {
    int64_t other = perm.empty() ? static_cast<int64_t>(i) : perm[i];
    if (other < 0) other += static_cast<int64_t>(stack.rank);
    const auto j = static_cast<size_t>(other);
    const size_t of_stack = role == Role::kOperand ? i : j;
    const size_t of_tensor = role == Role::kOperand ? j : i;
    stack.sizes[of_stack] = shape[of_tensor];
    stack.steps[of_stack] = shape.element_count(of_tensor + 1, shape.rank());
  }
  return stack;
}

bool HasUnitStep(const Stack& s, bool rows) {
  return rows ? s.row_step() == 1 || s.rows() == 1
              : s.column_step() == 1 || s.columns() == 1;
}

struct Product {
  GemmProblem problem;
  Batch batch;
};

// What happens to the rows of each product while they are in cache.
struct RowStep {
  bool is_there = false;
  SoftmaxOperation operation = SoftmaxOperation::kSoftmax;
  bool has_operand = false;  // input 3: a mask, or the result of the softmax
  int64_t operand_step = 0;  // from row to row
  int64_t batch_steps[Shape::kMaxRank] = {};  // along the batch axes
};

// Batch axes that do nothing but add rows join the rows: those of A under
// one B.
void JoinRows(Product& product) {
  GemmProblem& p = product.problem;
  Batch& batch = product.batch;
  if (p.trans_a) return;
  while (batch.rank > 0) {
    const BatchAxis& axis = batch.axes[batch.rank - 1];
    if (axis.size != 1 &&
        (axis.b != 0 || axis.a != p.m * p.lda || axis.c != p.m * p.ldc)) {
      return;
    }
    p.m *= axis.size;
    --batch.rank;
  }
}

// Follows `product`, whose rows are not joined. False if the columns of the
// operand do not lie next to each other.
bool MakeRowStep(const KernelRequest& request, std::string_view name,
                 RowStep& step) {
  step.is_there = true;
  if (name == "SoftmaxGrad") step.operation = SoftmaxOperation::kSoftmaxGrad;
  step.has_operand = request.has_input(3);
  if (!step.has_operand) return true;
  const Shape& y = request.outputs[0].shape;
  const auto steps = ops::BroadcastStrides(request.inputs[3].info.shape, y);
  const size_t rank = y.rank();
  std::copy_n(steps.begin(), rank - 2, step.batch_steps);
  step.operand_step = steps[rank - 2];
  return steps[rank - 1] == 1 || y[rank - 1] == 1;
}

// The product of stacks as they lie. False if neither rows nor columns of one
// of them lie next to each other.
bool MakeProduct(const Stack& a, const Stack& b, const Stack& c, float alpha,
                 Product& product) {
  const bool fits = (HasUnitStep(a, false) || HasUnitStep(a, true)) &&
                    (HasUnitStep(b, false) || HasUnitStep(b, true)) &&
                    HasUnitStep(c, false);
  if (!fits) return false;
  const bool trans_a = !HasUnitStep(a, false);
  const bool trans_b = !HasUnitStep(b, false);
  product.problem = {.trans_a = trans_a,
                     .trans_b = trans_b,
                     .m = a.rows(),
                     .n = b.columns(),
                     .k = a.columns(),
                     .alpha = alpha,
                     .lda = trans_a ? a.column_step() : a.row_step(),
                     .ldb = trans_b ? b.column_step() : b.row_step(),
                     .ldc = c.row_step()};
  Batch& batch = product.batch;
  batch.rank = c.rank - 2;
  for (size_t i = 0; i < batch.rank; ++i) {
    batch.axes[batch.rank - 1 - i] = {.size = c.sizes[batch.rank - 1 - i],
                                      .a = a.BatchStep(i),
                                      .b = b.BatchStep(i),
                                      .c = c.steps[batch.rank - 1 - i]};
  }
  return true;
}

class MatMulKernel final : public Kernel {
 public:
  // `exchanged`: A is input 1, B input 0.
  MatMulKernel(const Product& product, const RowStep& row_step, bool exchanged,
               bool has_bias, int num_threads)
      : batch_(product.batch),
        count_(product.batch.count()),
        row_step_(row_step),
        exchanged_(exchanged),
        has_bias_(has_bias) {
    // Threads take whole products as long as there are enough of them.
    const int64_t enough = std::max<int64_t>(1, count_);
    const auto per_product =
        static_cast<int>(CeilDiv<int64_t>(num_threads, enough));
    gemm_ = Gemm(product.problem, per_product);
    const int64_t items = count_ * gemm_.tile_count();
    parts_ = std::clamp<int64_t>(items, 1, num_threads);
    rows_ = product.problem.m;
    columns_ = product.problem.n;
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(parts_) * gemm_.tile_scratch_bytes();
  }
  double flops() const { return gemm_.flops() * static_cast<double>(count_); }

  void Run(const KernelContext& context) override {
    const GemmOperands operands = {
        .a = Floats(context, exchanged_ ? 1 : 0),
        .b = Floats(context, exchanged_ ? 0 : 1),
        .c = static_cast<float*>(context.output(0).data()),
        .bias = has_bias_ ? Floats(context, 2) : nullptr};
    const float* of_rows = row_step_.has_operand ? Floats(context, 3) : nullptr;
    const bool whole = gemm_.tile_count() == 1;
    // Each part has scratch of its own. Roughly 50 operations a nanosecond.
    const double cost = flops() / static_cast<double>(parts_) / 50;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        RunPart(part, operands, of_rows, whole, context.scratch());
      }
    });
    if (!row_step_.is_there || whole) return;
    context.ParallelFor(count_ * rows_, static_cast<double>(columns_),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            StepRows(row / rows_, row % rows_, 1, of_rows,
                                     operands.c);
                          }
                        });
  }

 private:
  static const float* Floats(const KernelContext& context, size_t input) {
    return static_cast<const float*>(context.input(input).data());
  }

  void RunPart(int64_t part, const GemmOperands& operands, const float* of_rows,
               bool whole, std::byte* scratch) const {
    const int64_t tiles = gemm_.tile_count();
    const int64_t items = count_ * tiles;
    scratch += static_cast<size_t>(part) * gemm_.tile_scratch_bytes();
    const int64_t last = PartStart(items, parts_, part + 1);
    for (int64_t i = PartStart(items, parts_, part); i < last; ++i) {
      const Offsets offsets = batch_.At(i / tiles);
      GemmOperands item = operands;
      item.a += offsets.a;
      item.b += offsets.b;
      item.c += offsets.c;
      gemm_.RunTile(i % tiles, item, scratch);
      if (row_step_.is_there && whole) {
        StepRows(i, 0, rows_, of_rows, operands.c);
      }
    }
  }

  // Rows [first, first + count) of one product. C is dense.
  void StepRows(int64_t product, int64_t first, int64_t count,
                const float* of_rows, float* c) const {
    if (of_rows != nullptr) {
      int64_t rest = product;
      for (size_t i = batch_.rank; i-- > 0;) {
        of_rows += rest % batch_.axes[i].size * row_step_.batch_steps[i];
        rest /= batch_.axes[i].size;
      }
      of_rows += first * row_step_.operand_step;
    }
    float* rows = c + (product * rows_ + first) * columns_;
    RunSoftmaxRows({.operation = row_step_.operation,
                    .rows = count,
                    .columns = columns_,
                    .a = rows,
                    .b = of_rows,
                    .b_step = row_step_.operand_step,
                    .to = rows,
                    .step = columns_});
  }

  Gemm gemm_;
  Batch batch_;
  int64_t count_;
  int64_t parts_ = 1;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  RowStep row_step_;
  bool exchanged_;
  bool has_bias_;
};

}  // namespace

KernelChoice ChooseMatMul(const KernelRequest& request) {
  const OpNode& node = request.node;
  for (size_t i = 0; i < 2; ++i) {
    const KernelInput& input = request.inputs[i];
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
  Stack a = ReadStack(request.inputs[0].info.shape, node.Ints("permA"),
                      Role::kOperand);
  Stack b = ReadStack(request.inputs[1].info.shape, node.Ints("permB"),
                      Role::kOperand);
  Stack c =
      ReadStack(request.outputs[0].shape, node.Ints("permY"), Role::kResult);
  if (node.Int("transA", 0) != 0) a.Transpose();
  if (node.Int("transB", 0) != 0) b.Transpose();
  const bool has_bias = request.has_input(2);
  const bool exchanged = !HasUnitStep(c, false);
  if (exchanged) {  // C' = B' A'
    if (has_bias) return KernelChoice::Decline("a bias along the rows");
    std::swap(a, b);
    for (Stack* stack : {&a, &b, &c}) stack->Transpose();
  }
  Product product;
  if (!MakeProduct(a, b, c, node.Float("alpha", 1.0f), product)) {
    return KernelChoice::Decline("rows and columns with gaps");
  }
  RowStep row_step;
  const std::string_view then = node.String("then", "");
  if (then.empty()) {
    JoinRows(product);
  } else if (!MakeRowStep(request, then, row_step)) {
    return KernelChoice::Decline("a mask of shape " +
                                 request.inputs[3].info.shape.ToString());
  }
  auto kernel = std::make_unique<MatMulKernel>(product, row_step, exchanged,
                                               has_bias, request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.flops = kernel->flops();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
