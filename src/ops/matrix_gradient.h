// SPDX-License-Identifier: Apache-2.0
//
// The gradients of Y = alpha op(A) op(B), where op may swap the last two axes
// and leading axes broadcast.
#pragma once

#include "ops/gradient.h"

namespace strop::ops {

struct MatrixProductForm {
  bool trans_a = false, trans_b = false;
  double alpha = 1;
};

// For nodes with A and B as inputs 0 and 1.
void MatrixProductGradient(GradientContext& c, const MatrixProductForm& form);

// alpha op(a) op(b): one Gemm for matrices, else FusedMatMul.
Var Product(GradientContext& c, Var a, bool trans_a, Var b, bool trans_b,
            double alpha, bool are_matrices);

}  // namespace strop::ops
