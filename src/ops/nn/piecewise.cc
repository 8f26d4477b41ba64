// SPDX-License-Identifier: Apache-2.0
//
// Activations that do one thing on one side of a threshold and another on
// the other.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/number.h"

namespace strop::ops {

namespace {

// --- Gradients

// dx = dy e^(x / alpha) below 0
void CeluGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.x()));
  const double alpha = c.node().Float("alpha", 1);
  const Var below = c.dy() * b.Op("Exp", {c.x() / alpha});
  c.Set(0, b.Where(b.Compare("Greater", c.x(), zero), c.dy(), below));
}

void ThresholdedReluGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var alpha = b.Scalar(c.node().Float("alpha", 1), type);
  c.Set(0,
        b.Where(b.Compare("Greater", c.x(), alpha), c.dy(), b.Scalar(0, type)));
}

void ShrinkGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var limit = b.Scalar(c.node().Float("lambd", 0.5f), type);
  c.Set(0, b.Where(b.Compare("Greater", b.Op("Abs", {c.x()}), limit), c.dy(),
                   b.Scalar(0, type)));
}

// At 0 the slope counts, as in PyTorch.
void PReluGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.x()));
  const Var positive = b.Compare("Greater", c.x(), zero);
  if (c.needs(0)) c.Set(0, b.Where(positive, c.dy(), c.dy() * c.x(1)));
  if (c.needs(1)) c.SetReduced(1, b.Where(positive, zero, c.dy() * c.x()));
}

}  // namespace

// y = max(0, x) + min(0, alpha (exp(x / alpha) - 1)), of which one is 0
extern constexpr OpDef kCelu = {
    .name = "Celu",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats, 5>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1)](auto x) {
        using T = decltype(x);
        const T a = static_cast<T>(alpha);
        return x < 0 ? a * std::expm1(x / a) : x;
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(CeluGradient)};

// y = x where x > alpha, 0 elsewhere
extern constexpr OpDef kThresholdedRelu = {
    .name = "ThresholdedRelu",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1)](auto x) {
        using T = decltype(x);
        return x > static_cast<T>(alpha) ? x : T{0};
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(ThresholdedReluGradient)};

// y = x + bias where x < -lambd, x - bias where x > lambd, 0 elsewhere.
// Integers are compared and shifted as real numbers.
extern constexpr OpDef kShrink = {
    .name = "Shrink",
    .infer = SameAsInput,
    .reference = UnaryWith<Numbers>([](const OpNode& node) {
      return [bias = node.Float("bias", 0),
              lambd = node.Float("lambd", 0.5f)](auto x) {
        using T = decltype(x);
        using Real = std::conditional_t<std::is_integral_v<T>, double, T>;
        const Real value = static_cast<Real>(x);
        const Real shift = static_cast<Real>(bias);
        const Real limit = static_cast<Real>(lambd);
        const Real y = value < -limit  ? value + shift
                       : value > limit ? value - shift
                                       : Real{0};
        return FromDouble<T>(static_cast<double>(y));
      };
    }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(ShrinkGradient)};

namespace {

void InferPRelu(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireBroadcastTo(c.node(), "slope", c.input(1).shape, c.input(0).shape);
  SameAsInput(c);
}

}  // namespace

// y = x where x >= 0, slope x elsewhere; the slope is broadcast to x.
extern constexpr OpDef kPRelu = {
    .name = "PRelu",
    .inputs = {2, 2},
    .infer = InferPRelu,
    .reference =
        Binary<TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>>(
            [](auto x, auto slope) { return x < 0 ? Times(slope, x) : x; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(PReluGradient)};

}  // namespace strop::ops
