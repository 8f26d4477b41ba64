// SPDX-License-Identifier: Apache-2.0
//
// Attention written with MatMul and Softmax, for the gradients of the ops that
// do it at once.
#pragma once

#include "ops/gradient_formula.h"

namespace strop::ops {

// Queries, keys and values are (batch, heads, rows, size), with one head of
// keys and values for each of the queries.
struct AttentionFormula {
  Var q, k, v;
  Var scale;                 // of rank 0
  double softcap = 0;        // 0: none
  Var bias;                  // added to the scores; may be no value
  bool may_be_dead = false;  // whether a row of the bias may be -infinity
};

struct AttentionValues {
  Var product, capped, biased, softmax;  // (batch, heads, rows, keys)
  Var y;                                 // (batch, heads, rows, size)
};

AttentionValues WriteAttention(GraphBuilder& b, const AttentionFormula& a);

// (batch, rows, heads * size) as (batch, heads, rows, size), and back.
Var SplitHeads(GraphBuilder& b, Var x, int64_t heads);
Var JoinHeads(GraphBuilder& b, Var x);
// Each head as often as `heads` are there of `kv_heads`.
Var RepeatHeads(GraphBuilder& b, Var x, int64_t heads, int64_t kv_heads);

// Says how many axes x has where nothing is known of them.
Var WithRank(GraphBuilder& b, Var x, size_t rank);

// int64 of rank 0: the size of an axis of x.
Var SizeOfAxis(GraphBuilder& b, Var x, int64_t axis);
// int64[rank 1]: 0, 1, ... up to a count.
Var CountTo(GraphBuilder& b, Var count);
// 1 / sqrt(size of the last axis)
Var DefaultScale(GraphBuilder& b, Var x);
// 0 where allowed, else -infinity.
Var ForbiddenBias(GraphBuilder& b, Var allowed, DataType type);

}  // namespace strop::ops
