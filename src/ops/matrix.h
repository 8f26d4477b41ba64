// SPDX-License-Identifier: Apache-2.0
//
// Plain matrix multiplication for the reference kernels.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// Element (i, j) is data[i * row + j * column].
template <class T>
struct MatrixView {
  const T* data;
  int64_t row, column;
};

// C = alpha A B, plus C with `accumulate`. C is m x n, dense; rows [begin,
// end) of it are computed.
template <class T>
void MultiplyRows(int64_t begin, int64_t end, int64_t n, int64_t k, T alpha,
                  MatrixView<T> a, MatrixView<T> b, T* c, bool accumulate) {
  for (int64_t i = begin; i < end; ++i) {
    T* row = c + i * n;
    if (!accumulate) std::fill_n(row, n, T{0});
    const T* a_row = a.data + i * a.row;
    if (b.column == 1) {
      for (int64_t p = 0; p < k; ++p) {
        const T factor = Times(alpha, a_row[p * a.column]);
        const T* b_row = b.data + p * b.row;
        for (int64_t j = 0; j < n; ++j) {
          row[j] = Plus(row[j], Times(factor, b_row[j]));
        }
      }
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      const T* b_column = b.data + j * b.column;
      T sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum = Plus(sum, Times(a_row[p * a.column], b_column[p * b.row]));
      }
      row[j] = Plus(row[j], Times(alpha, sum));
    }
  }
}

template <class T>
void Multiply(const KernelContext& context, int64_t m, int64_t n, int64_t k,
              T alpha, MatrixView<T> a, MatrixView<T> b, T* c,
              bool accumulate) {
  const double cost = 0.3 * static_cast<double>(n) * static_cast<double>(k);
  context.ParallelFor(m, cost, [&](int64_t begin, int64_t end) {
    MultiplyRows(begin, end, n, k, alpha, a, b, c, accumulate);
  });
}

// The view of a dense rows x columns matrix, or of its transpose.
template <class T>
MatrixView<T> View(const T* data, int64_t columns, bool transpose) {
  return transpose ? MatrixView<T>{data, 1, columns}
                   : MatrixView<T>{data, columns, 1};
}

// m, n and k of A' B', where A and B are matrices that attributes transA and
// transB may transpose. Throws when they do not fit.
struct GemmSizes {
  int64_t m, n, k;
  bool trans_a, trans_b;
};
GemmSizes ReadGemmSizes(const OpNode& node, const Shape& a, const Shape& b);

// --- Stacks of matrices, multiplied with numpy's rules

// One operand, seen as a stack of rows x columns matrices.
struct MatrixStack {
  int64_t rows = 1, columns = 1;
  int64_t row_stride = 0, column_stride = 0;
  Shape batch;
  Dims batch_strides = {};
  bool is_vector = false;
};

struct MatrixProduct {
  MatrixStack a, b;
  Shape batch;
};

// A tensor of rank >= 2 whose axes the attribute `perm` orders as batch axes,
// rows and columns; without it they are in that order. Throws.
MatrixStack ReadStack(const OpNode& node, Shape shape, std::string_view perm);
// The product of two tensors; attributes transA, transB, transBatchA and
// transBatchB are those of FusedMatMul, permA and permB those of the internal
// MatMul. Throws when the shapes do not fit.
MatrixProduct ReadProduct(const OpNode& node, const Shape& a, const Shape& b);
// Rows and columns behind the batch axes; those of a vector are left out.
Shape ProductShape(const MatrixProduct& p);
// Where matrix `index` of the broadcast stack starts in the operand.
int64_t BatchOffset(const MatrixStack& o, const Shape& batch, int64_t index);

}  // namespace strop::ops
