// SPDX-License-Identifier: Apache-2.0
#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

void InferExpand(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const Shape wanted(c.IntValues(1));
  c.SetOutput(0, c.input(0).type, BroadcastShapes(c.node(), x, wanted));
}

void Expand(const KernelContext& c) {
  const Shape& y = c.output(0).shape();
  const Dims from = BroadcastStrides(c.input(0).shape(), y);
  const Dims to = Strides(y);
  StridedCopy copy;
  for (size_t i = 0; i < y.rank(); ++i) copy.AddAxis(y[i], from[i], to[i]);
  copy.Run(c, c.input(0), c.output(0));
}

void InferTile(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const std::vector<int64_t> repeats = c.IntValues(1);
  if (repeats.size() != x.rank()) {
    Fail(c.node(), "{} repeats for the shape {}", repeats.size(), x.ToString());
  }
  std::vector<int64_t> dims(x.begin(), x.end());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0 || MultiplyOverflows(dims[i], repeats[i], &dims[i])) {
      Fail(c.node(), "cannot repeat axis {} of {} {} times", i, x.ToString(),
           repeats[i]);
    }
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// Each axis of the output is (repeat, axis of the input).
void Tile(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  const Shape& y = c.output(0).shape();
  const Dims from = Strides(x);
  const Dims to = Strides(y);
  StridedCopy copy;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (y[i] == 0) return;
    copy.AddAxis(y[i] / x[i], 0, to[i] * x[i]);
    copy.AddAxis(x[i], from[i], to[i]);
  }
  copy.Run(c, c.input(0), c.output(0));
}

// --- Gradients

// dy as [repeats 0, size 0, repeats 1, size 1, ...], summed over the repeats
void TileGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto rank = b.rank(c.x());
  if (!rank) c.Fail("the rank of its input must be known");
  const Var shape = b.Shape(c.x());
  const Var pairs =
      b.Op("Concat", {b.Unsqueeze(c.x(1), {1}), b.Unsqueeze(shape, {1})},
           {{"axis", int64_t{1}}});
  std::vector<int64_t> repeats;
  for (size_t i = 0; i < *rank; ++i)
    repeats.push_back(static_cast<int64_t>(2 * i));
  if (repeats.empty()) return c.Set(0, c.dy());
  const Var parts = b.Reshape(c.dy(), b.Reshape(pairs, b.Ints({-1})));
  c.Set(0, b.ReduceSum(parts, repeats, /*keepdims=*/false));
}

}  // namespace

// Broadcasts x together with the wanted shape.
extern constexpr OpDef kExpand = {
    .name = "Expand",
    .inputs = {2, 2},
    .infer = InferExpand,
    .reference = ByteKernel<Expand>(),
    .value_inputs = {1},
    .gradient = Rule([](GradientContext& c) { c.SetReduced(0, c.dy()); }),
    .stops_gradient = {1}};

extern constexpr OpDef kTile = {.name = "Tile",
                                .inputs = {2, 2},
                                .infer = InferTile,
                                .reference = ByteKernel<Tile>(),
                                .value_inputs = {1},
                                .gradient = Rule(TileGradient),
                                .stops_gradient = {1}};

}  // namespace strop::ops
