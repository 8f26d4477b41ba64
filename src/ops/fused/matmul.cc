// SPDX-License-Identifier: Apache-2.0
//
// The product of stacks of matrices that Specialize makes.
#include <type_traits>

#include "ops/axis.h"
#include "ops/matrix.h"
#include "ops/nn/softmax.h"

namespace strop::ops {
namespace {

using MatMulTypes =
    TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;

// Where axis i of `shape` goes: attribute permY, or nowhere else.
Dims ReadResultAxes(const OpNode& node, size_t rank) {
  Dims axes = {};
  const auto perm = node.Ints("permY");
  if (!perm.empty()) {
    if (perm.size() != rank) {
      Fail(node, "attribute permY has {} axes for a product of rank {}",
           perm.size(), rank);
    }
    NormalizeAxes(node, perm, rank);
  }
  for (size_t i = 0; i < rank; ++i) {
    axes[i] = perm.empty() ? i : NormalizeAxis(node, perm[i], rank);
  }
  return axes;
}

enum class Then { kNothing, kSoftmax, kSoftmaxGrad };

Then ReadThen(const OpNode& node) {
  const std::string_view then = node.String("then", "");
  if (then.empty()) return Then::kNothing;
  if (then == "Softmax") return Then::kSoftmax;
  if (then == "SoftmaxGrad") return Then::kSoftmaxGrad;
  Fail(node, "attribute then is \"{}\"", then);
}

// What follows the product works on its rows, which therefore lie in order.
void CheckThen(const InferContext& c, const Shape& y) {
  const Then then = ReadThen(c.node());
  if (then == Then::kNothing) return;
  RequireFloat(c, 0);
  if (y.rank() < 2 || !c.node().Ints("permY").empty()) {
    Fail(c.node(), "attribute then wants a product of matrices in order");
  }
  if (then == Then::kSoftmaxGrad) {
    RequireSameType(c, 0, 3);
    RequireShape(c, 3, y);
  } else if (c.has_input(3)) {
    RequireSameType(c, 0, 3);
    RequireBroadcastTo(c.node(), "the mask", c.input(3).shape, y);
  }
}

// A, B, bias (optional, one number per column of the product), and for what
// follows: a mask (optional), or the result of the softmax
void InferMatMul(InferContext& c) {
  RequireSameType(c, 0, 1);
  const MatrixProduct p =
      ReadProduct(c.node(), c.input(0).shape, c.input(1).shape);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    if (p.b.is_vector) Fail(c.node(), "a product of vectors takes no bias");
    RequireShape(c, 2, {p.b.columns});
  }
  const Shape shape = ProductShape(p);
  CheckThen(c, shape);
  const Dims axes = ReadResultAxes(c.node(), shape.rank());
  Dims dims = {};
  for (size_t i = 0; i < shape.rank(); ++i) dims[i] = shape[axes[i]];
  c.SetOutput(0, c.input(0).type,
              Shape(std::span<const int64_t>(dims.data(), shape.rank())));
}

// How far apart neighbours along each axis of the product, batch axes, row
// and column, stand in the result.
struct ResultStrides {
  Dims batch = {};
  int64_t row = 0, column = 0;
};

ResultStrides ReadResultStrides(const OpNode& node, const MatrixProduct& p,
                                const Shape& y) {
  const Dims axes = ReadResultAxes(node, y.rank());
  const Dims strides = Strides(y);
  Dims of_product = {};
  for (size_t i = 0; i < y.rank(); ++i) of_product[axes[i]] = strides[i];
  ResultStrides s;
  size_t axis = 0;
  for (; axis < p.batch.rank(); ++axis) s.batch[axis] = of_product[axis];
  if (!p.a.is_vector) s.row = of_product[axis++];
  if (!p.b.is_vector) s.column = of_product[axis];
  return s;
}

// Of one row of the result, whose first element is number `index`.
template <class T>
void SoftmaxInPlace(const KernelContext& c, T* y, int64_t index) {
  const Shape& shape = c.output(0).shape();
  const int64_t n = shape[shape.rank() - 1];
  if (c.has_input(3)) {
    const T* mask = c.in<T>(3).data();
    const Dims strides = BroadcastStrides(c.input(3).shape(), shape);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = index + i, at = 0;
      for (size_t axis = shape.rank(); axis-- > 0;) {
        at += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      y[i] += mask[at];
    }
  }
  SoftmaxLine(y, {.outer = 1, .size = n, .inner = 1}, y);
}

// dx = y (dy - sum(y dy))
template <class T>
void SoftmaxGradInPlace(const T* y, T* dy, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
  }
  for (int64_t i = 0; i < n; ++i) dy[i] = y[i] * (dy[i] - static_cast<T>(sum));
}

template <class T>
void MatMul(const KernelContext& c) {
  const MatrixProduct p =
      ReadProduct(c.node(), c.input(0).shape(), c.input(1).shape());
  const ResultStrides to = ReadResultStrides(c.node(), p, c.output(0).shape());
  const T alpha = static_cast<T>(c.node().Float("alpha", 1));
  const T* a = c.in<T>(0).data();
  const T* b = c.in<T>(1).data();
  const T* bias = c.has_input(2) ? c.in<T>(2).data() : nullptr;
  T* y = c.out<T>(0).data();
  [[maybe_unused]] const Then then = ReadThen(c.node());
  const int64_t m = p.a.rows, n = p.b.columns, k = p.a.columns;
  if (m == 0 || n == 0) return;
  const auto run_row = [&](int64_t index) {
    const int64_t matrix = index / m, row = index % m;
    const T* a_row =
        a + BatchOffset(p.a, p.batch, matrix) + row * p.a.row_stride;
    const T* b_matrix = b + BatchOffset(p.b, p.batch, matrix);
    T* y_row = y + row * to.row;
    int64_t rest = matrix;
    for (size_t axis = p.batch.rank(); axis-- > 0;) {
      y_row += rest % p.batch[axis] * to.batch[axis];
      rest /= p.batch[axis];
    }
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum = Plus(sum,
                   Times(a_row[i * p.a.column_stride],
                         b_matrix[i * p.b.row_stride + j * p.b.column_stride]));
      }
      sum = Times(alpha, sum);
      y_row[j * to.column] = bias == nullptr ? sum : Plus(sum, bias[j]);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (then == Then::kSoftmax) SoftmaxInPlace(c, y_row, index * n);
      if (then == Then::kSoftmaxGrad) {
        SoftmaxGradInPlace(c.in<T>(3).data() + index * n, y_row, n);
      }
    }
  };
  c.ParallelFor(p.batch.element_count() * m,
                0.5 * static_cast<double>(n) * static_cast<double>(k),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_row(i);
                });
}

}  // namespace

// Y = permY(alpha A' B' + bias), where A' is A with its axes ordered by permA
// (optional) and then, with transA, the last two exchanged; B' likewise.
// Attribute then: "Softmax" makes Softmax(product + mask) along the rows of
// it, "SoftmaxGrad" the gradient of that, given its result.
extern constexpr OpDef kInternalMatMul = {
    .name = "MatMul",
    .domain = kInternal,
    .inputs = {2, 4},
    .infer = InferMatMul,
    .reference = Instantiate<MatMulTypes>(
        []<class T>(const KernelContext& c) { MatMul<T>(c); })};

}  // namespace strop::ops
