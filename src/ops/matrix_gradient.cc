// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix_gradient.h"

namespace strop::ops {
namespace {

// Below, Gemm wants its third input.
constexpr int64_t kGemmWithoutC = 11;

using Dims = std::optional<std::vector<Dimension>>;

Dimension Number(int64_t value) { return {.value = value, .symbol = {}}; }

// A vector as the matrix that it stands for: one row as A, one column as B.
Var AsMatrix(GraphBuilder& b, Var x, bool is_left) {
  const Var matrix = b.Unsqueeze(x, {is_left ? int64_t{0} : int64_t{1}});
  std::vector<Dimension> dims = {Number(1), Number(1)};
  dims[is_left ? 1 : 0] = (*b.dims(x))[0];
  b.SetDims(matrix, dims);
  return matrix;
}

// The batch axes of `y` with the last two of `x`.
Dims ProductDims(GraphBuilder& b, Var y, Var x) {
  Dims dims = b.dims(y);
  const Dims last = b.dims(x);
  if (!dims || !last || dims->size() < 2 || last->size() < 2)
    return std::nullopt;
  std::copy_n(last->end() - 2, 2, dims->end() - 2);
  return dims;
}

// With a matrix B under a stack A, all rows of the stack count as one matrix.
Var GradientOfSharedMatrix(GradientContext& c, Var a, Var dy,
                           const MatrixProductForm& form) {
  GraphBuilder& b = c.build();
  const auto flat = [&](Var x) {
    const auto& dims = b.dims(x);
    const Dimension last = dims ? dims->back() : Dimension{};
    if (last.value.value_or(0) > 0)
      return b.Reshape(x, b.Ints({-1, *last.value}));
    // Without columns, elements would not tell how many rows there are.
    const Var shape = b.Shape(x), end = b.Ints({-1});
    const Var rows = b.Op(
        "ReduceProd",
        {b.Op("Slice", {shape, b.Ints({0}), end, b.Ints({0})}), b.Ints({0})});
    const Var columns = b.Op("Gather", {shape, end});
    return b.Reshape(x,
                     b.Op("Concat", {rows, columns}, {{"axis", int64_t{0}}}));
  };
  if (form.trans_b)
    return Product(c, flat(dy), true, flat(a), false, form.alpha, true);
  return Product(c, flat(a), true, flat(dy), false, form.alpha, true);
}

}  // namespace

Var Product(GradientContext& c, Var a, bool trans_a, Var b, bool trans_b,
            double alpha, bool are_matrices) {
  GraphBuilder& build = c.build();
  Attributes attributes = {{"transA", int64_t{trans_a}},
                           {"transB", int64_t{trans_b}},
                           {"alpha", static_cast<float>(alpha)}};
  if (!are_matrices || c.opset() < kGemmWithoutC)
    return build.MicrosoftOp("FusedMatMul", {a, b}, attributes);
  attributes.emplace_back("beta", 0.0f);
  return build.Op("Gemm", {a, b}, attributes);
}

void MatrixProductGradient(GradientContext& c, const MatrixProductForm& form) {
  GraphBuilder& build = c.build();
  const auto rank_a = build.rank(c.x(0)), rank_b = build.rank(c.x(1));
  if (!rank_a || !rank_b) c.Fail("the ranks of its inputs must be known");
  Var a = c.x(0), b = c.x(1), y = c.y(), dy = c.dy();
  if (*rank_a == 1) a = AsMatrix(build, a, /*is_left=*/true);
  if (*rank_b == 1) b = AsMatrix(build, b, /*is_left=*/false);
  if (*rank_a == 1 || *rank_b == 1) {
    std::vector<int64_t> axes;
    if (*rank_a == 1) axes.push_back(*rank_b == 1 ? 0 : -2);
    if (*rank_b == 1) axes.push_back(*rank_a == 1 ? 1 : -1);
    dy = build.Unsqueeze(dy, axes);
    Dims dims = build.dims(y);
    if (dims && *rank_a == 1)
      dims->insert(dims->end() - (*rank_b == 1 ? 0 : 1), Number(1));
    if (dims && *rank_b == 1) dims->push_back(Number(1));
    build.SetDims(dy, dims);
    y = dy;
  }
  const bool matrices = *rank_a <= 2 && *rank_b <= 2;
  const auto finish = [&](size_t slot, Var gradient, Var matrix, size_t rank,
                          int64_t unit_axis) {
    if (!matrices) {
      build.SetDims(gradient, ProductDims(build, y, matrix));
      gradient = build.ReduceToShapeOf(gradient, gradient, matrix);
    }
    c.Set(slot, rank == 1 ? build.Squeeze(gradient, {unit_axis}) : gradient);
  };
  if (c.needs(0)) {
    finish(0,
           form.trans_a
               ? Product(c, b, form.trans_b, dy, true, form.alpha, matrices)
               : Product(c, dy, false, b, !form.trans_b, form.alpha, matrices),
           a, *rank_a, 0);
  }
  if (!c.needs(1)) return;
  if (!matrices && *rank_b == 2 && !form.trans_a && *rank_a > 2)
    return c.Set(1, GradientOfSharedMatrix(c, a, dy, form));
  finish(1,
         form.trans_b
             ? Product(c, dy, true, a, form.trans_a, form.alpha, matrices)
             : Product(c, a, !form.trans_a, dy, false, form.alpha, matrices),
         b, *rank_b, 1);
}

}  // namespace strop::ops
