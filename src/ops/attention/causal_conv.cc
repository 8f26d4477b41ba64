// SPDX-License-Identifier: Apache-2.0
//
// CausalConvWithState: each channel is convolved along the last axis with
// taps of its own that look backwards only; what lies before the first
// element is the past state, or 0.
#include <cmath>

#include "ops/gradient_formula.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// Swish: y sigmoid(y)
bool HasSwish(const OpNode& node) {
  const std::string_view name = node.String("activation", "none");
  if (name != "none" && name != "silu" && name != "swish") {
    Fail(node, "attribute activation is \"{}\"", name);
  }
  return name != "none";
}

// x (batch, channels, length), weight (channels, 1, taps), bias, past state
// (batch, channels, taps - 1) -> y, state
void InferCausalConv(InferContext& c) {
  const OpNode& node = c.node();
  const Shape& x = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  HasSwish(node);
  for (size_t i = 1; i < 4; ++i) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  if (x.rank() != 3 || w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1) {
    Fail(node, "input {} and weight {} do not fit", x.ToString(), w.ToString());
  }
  const Shape state = {x[0], x[1], w[2] - 1};
  if (c.has_input(2)) RequireShape(c, 2, {x[1]});
  if (c.has_input(3)) RequireShape(c, 3, state);
  c.SetOutput(0, c.input(0).type, x);
  c.SetOutput(1, c.input(0).type, state);
}

template <class T>
void CausalConv(const KernelContext& c) {
  const bool has_swish = HasSwish(c.node());
  const Shape& shape = c.input(0).shape();
  const int64_t channels = shape[1], length = shape[2];
  const int64_t before = c.input(1).shape()[2] - 1;
  const T* past = c.has_input(3) ? c.in<T>(3).data() : nullptr;
  const auto convolve_line = [&](int64_t line) {
    const T* x = c.in<T>(0).data() + line * length;
    const T* taps = c.in<T>(1).data() + line % channels * (before + 1);
    const T* start = past ? past + line * before : nullptr;
    // Element i of the past followed by x.
    const auto at = [&](int64_t i) {
      if (i >= before) return x[i - before];
      return start ? start[i] : T{0};
    };
    const double bias =
        c.has_input(2) ? static_cast<double>(c.in<T>(2)[line % channels]) : 0;
    T* y = c.out<T>(0).data() + line * length;
    for (int64_t i = 0; i < length; ++i) {
      double sum = bias;
      for (int64_t k = 0; k <= before; ++k) {
        sum += static_cast<double>(taps[k]) * static_cast<double>(at(i + k));
      }
      y[i] = static_cast<T>(has_swish ? sum / (1 + std::exp(-sum)) : sum);
    }
    if (!c.has_output(1)) return;
    T* state = c.out<T>(1).data() + line * before;
    for (int64_t i = 0; i < before; ++i) state[i] = at(length + i);
  };
  c.ParallelFor(shape[0] * channels,
                static_cast<double>((length + 1) * (before + 2)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) convolve_line(i);
                });
}

// --- Gradients

// A convolution, one group for each channel, over the past and x.
std::vector<Var> CausalConvFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto weight = b.dims(c.x(1));
  if (!weight || !(*weight)[0].value)
    c.Fail("the shape of its weight must be known");
  const auto size = [&](Var x, int64_t axis) {
    return b.Op("Gather", {b.Shape(x), b.Ints({axis})});
  };
  const Var before = size(c.x(1), 2) - b.Ints({1});
  Var past = c.has_input(3) ? c.x(3) : Var{};
  if (!past) {
    const Var sizes[] = {size(c.x(), 0), size(c.x(), 1), before};
    past =
        b.Zeros(b.Op("Concat", sizes, {{"axis", int64_t{0}}}), b.type(c.x()));
  }
  const Var parts[] = {past, c.x(0)};
  const Var all = b.Op("Concat", parts, {{"axis", int64_t{2}}});
  const Var bias = c.has_input(2) ? c.x(2) : Var{};
  const Attributes each_channel = {{"group", *(*weight)[0].value}};
  const auto x = b.dims(c.x());
  Var y;
  if (x && (*x)[2].value.value_or(0) > 0) {
    y = b.Op("Conv", {all, c.x(1), bias}, each_channel);
  } else {
    // x may have a length of 0, and a convolution wants one window at least:
    // one that begins a step earlier, which is left aside.
    const Var longer = b.Op("Pad", {all, b.Ints({0, 0, 1, 0, 0, 0})});
    y = b.Op("Conv", {longer, c.x(1), bias}, each_channel);
    y = b.Op("Slice", {y, b.Ints({1}), b.Ints({INT64_MAX}), b.Ints({2})});
  }
  if (HasSwish(c.node())) y = y * b.Op("Sigmoid", {y});
  const Var state = b.Op(
      "Slice", {all, size(c.x(), 2), size(c.x(), 2) + before, b.Ints({2})});
  return {y, state};
}

}  // namespace

extern constexpr OpDef kCausalConvWithState = {
    .name = "CausalConvWithState",
    .since = 27,
    .inputs = {2, 4},
    .outputs = {1, 2},
    .infer = InferCausalConv,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { CausalConv<T>(c); }),
    .gradient = Rule(FromFormula<CausalConvFormula>)};

}  // namespace strop::ops
