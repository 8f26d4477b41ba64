// SPDX-License-Identifier: Apache-2.0
//
// Activations that multiply a number with a gate between 0 and 1.
#include "ops/activations.h"
#include "ops/elementwise.h"
#include "ops/gradient_formula.h"

namespace strop::ops {

namespace {

// --- Gradients

// t + x s (1 - t^2) with t = tanh(softplus(x)) and s the logistic function
void MishGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var x = c.x();
  const Var t = b.Op("Tanh", {b.Op("Softplus", {x})});
  const Var s = b.Op("Sigmoid", {x});
  c.Set(0, c.dy() * (t + x * s * (1 - t * t)));
}

// The gate of QuickGelu is that of SwiGLU.
std::vector<Var> SwiGluFormula(GradientContext& c) {
  const Var gated = c.build().MicrosoftOp(
      "QuickGelu", {c.x(0)}, {{"alpha", c.node().Float("alpha", 1)}});
  c.build().SetDims(gated, c.build().dims(c.x(0)));
  return {gated * c.x(1)};
}

}  // namespace

// y = x sigmoid(alpha x)
extern constexpr OpDef kSwish = {
    .name = "Swish",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats, 6>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1)](auto x) {
        return x * Logistic(static_cast<decltype(x)>(alpha) * x);
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("QuickGeluGrad", {c.dy(), c.x()},
                                     {{"alpha", c.node().Float("alpha", 1)}}));
    })};

// y = a sigmoid(alpha a) b, for inputs of one shape
extern constexpr OpDef kSwiGLU = {
    .name = "SwiGLU",
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = PairwiseWith<Floats, 6>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1)](auto a, auto b) {
        return a * Logistic(static_cast<decltype(a)>(alpha) * a) * b;
      };
    }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .gradient = Rule(FromFormula<SwiGluFormula>)};

// y = x tanh(log(1 + exp(x))). With e = exp(-|x|) the tanh is a quotient of
// polynomials: (1 + 2 e) / (1 + 2 e + 2 e^2) for x >= 0 and
// (e^2 + 2 e) / (e^2 + 2 e + 2) below, and nothing overflows.
extern constexpr OpDef kMish = {
    .name = "Mish",
    .infer = SameAsInput,
    .reference = Unary<Floats, 6>([](auto x) {
      const auto e = std::exp(-std::abs(x));
      const auto low = e * (e + 2);
      return x *
             (x < 0 ? low / (low + 2) : (1 + 2 * e) / (1 + 2 * e * (1 + e)));
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(MishGradient)};

}  // namespace strop::ops
