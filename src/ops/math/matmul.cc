// SPDX-License-Identifier: Apache-2.0
//
// MatMul and com.microsoft FusedMatMul: stacks of matrices, multiplied with
// numpy's rules.
#include "ops/gradient_formula.h"
#include "ops/matrix.h"
#include "ops/matrix_gradient.h"

namespace strop::ops {
namespace {

using MatMulTypes =
    TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;

// The names of the attributes that say how an operand is read.
struct OperandNames {
  std::string_view trans, trans_batch, perm;
};

// Orders the axes as the attribute `name` says, where it is there.
void Permute(const OpNode& node, std::string_view name, Shape& shape,
             Dims& strides) {
  const auto perm = node.Ints(name);
  if (perm.empty()) return;
  const size_t rank = shape.rank();
  if (perm.size() != rank) {
    Fail(node, "attribute {} has {} axes for rank {}", name, perm.size(), rank);
  }
  NormalizeAxes(node, perm, rank);
  Dims dims = {}, steps = {};
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = NormalizeAxis(node, perm[i], rank);
    dims[i] = shape[axis];
    steps[i] = strides[axis];
  }
  shape = Shape(std::span<const int64_t>(dims.data(), rank));
  strides = steps;
}

// Rows are axis `row_axis` of the shape, columns the last; the other axes,
// from `first_batch` on, are the batch.
MatrixStack StackOf(const Shape& shape, const Dims& strides, size_t row_axis,
                    size_t first_batch) {
  const size_t rank = shape.rank();
  MatrixStack o;
  o.rows = shape[row_axis];
  o.columns = shape[rank - 1];
  o.row_stride = strides[row_axis];
  o.column_stride = strides[rank - 1];
  o.batch = Shape(shape.dims().subspan(first_batch, rank - 2));
  for (size_t i = 0; i < rank - 2; ++i) {
    o.batch_strides[i] = strides[first_batch + i];
  }
  return o;
}

MatrixStack ReadOperand(const OpNode& node, Shape shape, bool is_left,
                        const OperandNames& names) {
  const auto& [trans, trans_batch, perm] = names;
  const size_t rank = shape.rank();
  if (rank == 0) Fail(node, "multiplies no scalars");
  Dims strides = Strides(shape);
  Permute(node, perm, shape, strides);
  if (rank == 1) {
    MatrixStack o;
    o.is_vector = true;
    (is_left ? o.columns : o.rows) = shape[0];
    (is_left ? o.column_stride : o.row_stride) = 1;
    return o;
  }
  // With trans_batch the rows are the outermost axis: [rows, batch..., k].
  const bool rows_first = node.Int(trans_batch, 0) != 0;
  MatrixStack o =
      StackOf(shape, strides, rows_first ? 0 : rank - 2, rows_first ? 1 : 0);
  if (node.Int(trans, 0) != 0) {
    std::swap(o.rows, o.columns);
    std::swap(o.row_stride, o.column_stride);
  }
  return o;
}

}  // namespace

MatrixStack ReadStack(const OpNode& node, Shape shape, std::string_view perm) {
  if (shape.rank() < 2) {
    Fail(node, "wants matrices, not {}", shape.ToString());
  }
  Dims strides = Strides(shape);
  Permute(node, perm, shape, strides);
  return StackOf(shape, strides, shape.rank() - 2, 0);
}

MatrixProduct ReadProduct(const OpNode& node, const Shape& a, const Shape& b) {
  MatrixProduct p = {
      ReadOperand(node, a, true, {"transA", "transBatchA", "permA"}),
      ReadOperand(node, b, false, {"transB", "transBatchB", "permB"}),
      {}};
  if (p.a.columns != p.b.rows) {
    Fail(node, "inner dimensions differ: A is {}, B is {}", a.ToString(),
         b.ToString());
  }
  p.batch = BroadcastShapes(node, p.a.batch, p.b.batch);
  return p;
}

Shape ProductShape(const MatrixProduct& p) {
  std::vector<int64_t> dims(p.batch.begin(), p.batch.end());
  if (!p.a.is_vector) dims.push_back(p.a.rows);
  if (!p.b.is_vector) dims.push_back(p.b.columns);
  return Shape(dims);
}

int64_t BatchOffset(const MatrixStack& o, const Shape& batch, int64_t index) {
  int64_t offset = 0;
  const size_t lead = batch.rank() - o.batch.rank();
  for (size_t axis = batch.rank(); axis-- > 0;) {
    const int64_t at = index % batch[axis];
    index /= batch[axis];
    if (axis >= lead && o.batch[axis - lead] != 1) {
      offset += at * o.batch_strides[axis - lead];
    }
  }
  return offset;
}

namespace {

void InferMatMul(InferContext& c) {
  RequireSameType(c, 0, 1);
  const MatrixProduct p =
      ReadProduct(c.node(), c.input(0).shape, c.input(1).shape);
  c.SetOutput(0, c.input(0).type, ProductShape(p));
}

template <class T>
void MatMul(const KernelContext& c) {
  const MatrixProduct p =
      ReadProduct(c.node(), c.input(0).shape(), c.input(1).shape());
  const T alpha = static_cast<T>(c.node().Float("alpha", 1));
  const T* a = c.in<T>(0).data();
  const T* b = c.in<T>(1).data();
  T* y = c.out<T>(0).data();
  const int64_t m = p.a.rows, n = p.b.columns, k = p.a.columns;
  if (m == 0 || n == 0) return;
  const double cost = 0.3 * static_cast<double>(n) * static_cast<double>(k);
  // All rows of all matrices.
  c.ParallelFor(p.batch.element_count() * m, cost,
                [&](int64_t begin, int64_t end) {
                  while (begin < end) {
                    const int64_t matrix = begin / m;
                    const int64_t first = begin % m;
                    const int64_t last = std::min(m, first + end - begin);
                    MultiplyRows<T>(first, last, n, k, alpha,
                                    {a + BatchOffset(p.a, p.batch, matrix),
                                     p.a.row_stride, p.a.column_stride},
                                    {b + BatchOffset(p.b, p.batch, matrix),
                                     p.b.row_stride, p.b.column_stride},
                                    y + matrix * m * n, /*accumulate=*/false);
                    begin += last - first;
                  }
                });
}

constexpr ReferenceKernel kMatMulKernel = Instantiate<MatMulTypes>(
    []<class T>(const KernelContext& c) { MatMul<T>(c); });

// --- Gradients

// Rows that are the outermost axis become the last but one.
Var RowsLast(GradientContext& c, size_t i, std::string_view trans_batch) {
  GraphBuilder& b = c.build();
  const Var x = c.x(i);
  if (c.node().Int(trans_batch, 0) == 0) return x;
  const auto rank = b.rank(x);
  if (!rank) c.Fail("the ranks of its inputs must be known");
  if (*rank < 3) return x;
  const auto last = static_cast<int64_t>(*rank) - 1;
  std::vector<int64_t> perm;
  std::vector<Dimension> dims;
  for (int64_t axis = 1; axis < last; ++axis) perm.push_back(axis);
  perm.push_back(0);
  perm.push_back(last);
  for (const int64_t axis : perm)
    dims.push_back((*b.dims(x))[static_cast<size_t>(axis)]);
  const Var y = b.Transpose(x, perm);
  b.SetDims(y, std::move(dims));
  return y;
}

std::vector<Var> RowsLastProduct(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var y = b.MicrosoftOp(
      "FusedMatMul",
      {RowsLast(c, 0, "transBatchA"), RowsLast(c, 1, "transBatchB")},
      {{"transA", c.node().Int("transA", 0)},
       {"transB", c.node().Int("transB", 0)},
       {"alpha", c.node().Float("alpha", 1)}});
  b.SetDims(y, b.dims(c.y()));
  return {y};
}

void FusedMatMulGradient(GradientContext& c) {
  const OpNode node = c.node();
  if (node.Int("transBatchA", 0) != 0 || node.Int("transBatchB", 0) != 0)
    return DifferentiateFormula(c, RowsLastProduct);
  MatrixProductGradient(c, {.trans_a = node.Int("transA", 0) != 0,
                            .trans_b = node.Int("transB", 0) != 0,
                            .alpha = node.Float("alpha", 1)});
}

}  // namespace

// Y = A B
extern constexpr OpDef kMatMul = {
    .name = "MatMul",
    .inputs = {2, 2},
    .infer = InferMatMul,
    .reference = kMatMulKernel,
    .gradient = Rule([](GradientContext& c) { MatrixProductGradient(c, {}); })};

// Y = alpha A' B': transA, transB swap the last two axes, transBatchA and
// transBatchB say that the rows are the outermost axis.
extern constexpr OpDef kFusedMatMul = {.name = "FusedMatMul",
                                       .domain = kMicrosoft,
                                       .inputs = {2, 2},
                                       .infer = InferMatMul,
                                       .reference = kMatMulKernel,
                                       .gradient = Rule(FusedMatMulGradient)};

// The old name, without the batch flags.
extern constexpr OpDef kTransposeMatMul = {
    .name = "TransposeMatMul",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferMatMul,
    .reference = kMatMulKernel,
    .gradient = Rule(FusedMatMulGradient)};

}  // namespace strop::ops
