// SPDX-License-Identifier: Apache-2.0
//
// The internal ops of attention, strop.internal:Attention and AttentionGrad:
//
//   P = softmax(alpha Q K' + mask) along the rows,      Y = P V
//
// for each index of the batch axes, which broadcast. Q is rows x depth, K keys
// x depth, V keys x width, Y rows x width; attributes permQ, permK, permV and
// permY order the axes of the tensors as batch axes, rows and columns. The
// gradients of Q, K and V lie as those do, that of Y like Y; they have all
// batch axes, as MatMul's products do.
#pragma once

#include <string_view>

#include "ops/matrix.h"

namespace strop::ops {

struct AttentionStacks {
  MatrixStack q, k, v;
  Shape batch;

  int64_t rows() const { return q.rows; }
  int64_t keys() const { return k.rows; }
  int64_t depth() const { return q.columns; }
  int64_t width() const { return v.columns; }
  // Of P and the mask: batch axes, rows, keys.
  Shape ScoresShape() const;
};

// Throws when the shapes do not fit.
AttentionStacks ReadAttention(const OpNode& node, const Shape& q,
                              const Shape& k, const Shape& v);

}  // namespace strop::ops
