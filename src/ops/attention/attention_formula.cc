// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_formula.h"

#include <cmath>
#include <limits>

namespace strop::ops {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

// int64[n] of n sizes of rank 0.
Var ShapeOf(GraphBuilder& b, std::initializer_list<Var> sizes) {
  std::vector<Var> parts;
  for (const Var size : sizes) parts.push_back(b.Unsqueeze(size, {0}));
  return b.Op("Concat", parts, {{"axis", int64_t{0}}});
}

}  // namespace

Var WithRank(GraphBuilder& b, Var x, size_t rank) {
  if (!b.dims(x)) b.SetDims(x, std::vector<Dimension>(rank));
  return x;
}

Var SizeOfAxis(GraphBuilder& b, Var x, int64_t axis) {
  return b.Op("Gather", {b.Shape(x), b.Int(axis)});
}

Var CountTo(GraphBuilder& b, Var count) {
  return b.Op("Range", {b.Int(0), count, b.Int(1)});
}

Var DefaultScale(GraphBuilder& b, Var x) {
  const DataType type = b.type(x);
  const auto& dims = b.dims(x);
  if (dims && dims->back().value) {
    return b.Scalar(1 / std::sqrt(static_cast<double>(*dims->back().value)),
                    type);
  }
  return 1 / b.Op("Sqrt", {b.Cast(SizeOfAxis(b, x, -1), type)});
}

Var ForbiddenBias(GraphBuilder& b, Var allowed, DataType type) {
  return b.Where(allowed, b.Scalar(0, type), b.Scalar(kForbidden, type));
}

// Sizes are told, not left open: there may be no element to find them by.
Var SplitHeads(GraphBuilder& b, Var x, int64_t heads) {
  const Var width = b.Op("Div", {SizeOfAxis(b, x, 2), b.Int(heads)});
  const Var split =
      b.Reshape(x, ShapeOf(b, {SizeOfAxis(b, x, 0), SizeOfAxis(b, x, 1),
                               b.Int(heads), width}));
  const Var y = b.Transpose(split, {0, 2, 1, 3});
  const auto dims = b.dims(x);
  if (!dims) return WithRank(b, y, 4);
  Dimension size;
  if (dims->back().value) size.value = *dims->back().value / heads;
  b.SetDims(y,
            std::vector<Dimension>{
                (*dims)[0], {.value = heads, .symbol = {}}, (*dims)[1], size});
  return y;
}

Var JoinHeads(GraphBuilder& b, Var x) {
  const Var width = SizeOfAxis(b, x, 1) * SizeOfAxis(b, x, 3);
  return b.Reshape(
      b.Transpose(x, {0, 2, 1, 3}),
      ShapeOf(b, {SizeOfAxis(b, x, 0), SizeOfAxis(b, x, 2), width}));
}

Var RepeatHeads(GraphBuilder& b, Var x, int64_t heads, int64_t kv_heads) {
  if (heads == kv_heads) return x;
  std::vector<int64_t> sources;
  for (int64_t i = 0; i < heads; ++i) sources.push_back(i / (heads / kv_heads));
  const Var y = b.Op("Gather", {x, b.Ints(sources)}, {{"axis", int64_t{1}}});
  auto dims = b.dims(x);
  if (dims) (*dims)[1] = {.value = heads, .symbol = {}};
  b.SetDims(y, dims);
  return WithRank(b, y, 4);
}

AttentionValues WriteAttention(GraphBuilder& b, const AttentionFormula& a) {
  const DataType type = b.type(a.q);
  const auto like = [&](Var x, Var other) {
    b.SetDims(x, b.dims(other));
    return x;
  };
  const auto last_two = [&](Var rows, Var columns, size_t columns_axis) {
    auto dims = b.dims(rows);
    const auto& others = b.dims(columns);
    if (dims && others) dims->back() = (*others)[columns_axis];
    return dims;
  };
  AttentionValues r;
  const Var keys = b.Transpose(a.k, {0, 1, 3, 2});
  auto keys_dims = b.dims(a.k);
  if (keys_dims) std::swap((*keys_dims)[2], (*keys_dims)[3]);
  b.SetDims(keys, keys_dims);
  const Var scores =
      b.Op("MatMul", {WithRank(b, a.q, 4), WithRank(b, keys, 4)});
  b.SetDims(scores, last_two(a.q, a.k, 2));
  r.product = like(scores * a.scale, scores);
  r.capped = r.product;
  if (a.softcap > 0) {
    const Var squashed =
        like(b.Op("Tanh", {like(r.product * (1 / a.softcap), scores)}), scores);
    r.capped = like(squashed * a.softcap, scores);
  }
  r.biased = a.bias ? like(r.capped + a.bias, scores) : r.capped;
  const Attributes last = {{"axis", int64_t{-1}}};
  if (!a.bias || !a.may_be_dead) {
    r.softmax = like(b.Op("Softmax", {r.biased}, last), scores);
  } else {
    // A row that may look at no key is zero.
    const Var largest = b.Op("ReduceMax", {a.bias, b.Ints({-1})});
    const Var dead = b.Compare("Equal", largest, b.Scalar(kForbidden, type));
    const Var zero = b.Scalar(0, type);
    const Var alive = like(b.Where(dead, zero, r.biased), scores);
    const Var softmax = like(b.Op("Softmax", {alive}, last), scores);
    r.softmax = like(b.Where(dead, zero, softmax), scores);
  }
  r.y = b.Op("MatMul", {r.softmax, WithRank(b, a.v, 4)});
  b.SetDims(r.y, last_two(a.q, a.v, 3));
  return r;
}

}  // namespace strop::ops
