// SPDX-License-Identifier: Apache-2.0
//
// Activations and their gradients. A gradient takes dY and the input or
// output of the forward op, whichever the formula needs.
#include "ops/activations.h"

#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

// --- y = max(x, 0); dx = dy where x (or y) > 0. NaN stays NaN.

namespace {

// --- Gradients

// ONNX Runtime's op looks at the sign of y, which is that of x for alpha >= 0.
void LeakyReluGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const float alpha = c.node().Float("alpha", 0.01f);
  if (alpha >= 0) {
    c.Set(0,
          b.MicrosoftOp("LeakyReluGrad", {c.dy(), c.y()}, {{"alpha", alpha}}));
    return;
  }
  const Var x = c.x();
  const Var positive = b.Compare("Greater", x, b.Scalar(0, b.type(x)));
  c.Set(0, b.Where(positive, c.dy(), c.dy() * alpha));
}

// dx = dy / (1 + |x|)^2
void SoftsignGradient(GradientContext& c) {
  const Var root = 1 + c.build().Op("Abs", {c.x()});
  c.Set(0, c.dy() / (root * root));
}

// dy where x > 0, else `otherwise`.
Var WherePositive(GradientContext& c, Var positive, Var otherwise) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.x()));
  return b.Where(b.Compare("Greater", c.x(), zero), positive, otherwise);
}

// dx = dy (y + alpha) below 0
void EluGradient(GradientContext& c) {
  const float alpha = c.node().Float("alpha", 1);
  c.Set(0, WherePositive(c, c.dy(), c.dy() * (c.y() + alpha)));
}

// dx = dy (y + gamma alpha) below 0, dy gamma above
void SeluGradient(GradientContext& c) {
  const double alpha = c.node().Float("alpha", 1.67326319217681884765625f);
  const double gamma = c.node().Float("gamma", 1.05070102214813232421875f);
  c.Set(0, WherePositive(c, c.dy() * gamma, c.dy() * (c.y() + gamma * alpha)));
}

// dx = dy alpha where 0 < alpha x + beta < 1
void HardSigmoidGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var inside =
      b.Compare("And", b.Compare("Greater", c.y(), b.Scalar(0, type)),
                b.Compare("Less", c.y(), b.Scalar(1, type)));
  const double alpha = c.node().Float("alpha", 0.2f);
  c.Set(0, b.Where(inside, c.dy() * alpha, b.Scalar(0, type)));
}

// dx = dy (x / 3 + 1/2) between -3 and 3, 0 below, dy above
void HardSwishGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var above = b.Compare("Less", b.Scalar(3, type), c.x());
  const Var below = b.Compare("Less", c.x(), b.Scalar(-3, type));
  const Var middle = c.dy() * (c.x() / 3 + 0.5);
  c.Set(0, b.Where(below, b.Scalar(0, type), b.Where(above, c.dy(), middle)));
}

}  // namespace

extern constexpr OpDef kRelu = {
    .name = "Relu",
    .infer = SameAsInput,
    .reference = Unary<Numbers>([](auto x) {
      using T = decltype(x);
      return x < 0 ? T{0} : x;
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("ReluGrad", {c.dy(), c.y()}));
    })};

extern constexpr OpDef kReluGrad = {
    .name = "ReluGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = Pairwise<Floats>(
        [](auto dy, auto x) { return x > 0 ? dy : decltype(dy){0}; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

// --- y = x where x >= 0, alpha x elsewhere

extern constexpr OpDef kLeakyRelu = {
    .name = "LeakyRelu",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 0.01f)](auto x) {
        return x < 0 ? static_cast<decltype(x)>(alpha) * x : x;
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(LeakyReluGradient)};

// From the output, which has the sign of x for alpha >= 0 only.
extern constexpr OpDef kLeakyReluGrad = {
    .name = "LeakyReluGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = PairwiseWith<Floats>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 0.01f)](auto dy, auto y) {
        return y > 0 ? dy : static_cast<decltype(y)>(alpha) * dy;
      };
    }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

// --- y = 1 / (1 + exp(-x)); dx = dy y (1 - y)

extern constexpr OpDef kSigmoid = {
    .name = "Sigmoid",
    .infer = SameAsInput,
    .reference = Unary<Floats, 5>([](auto x) { return Logistic(x); }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("SigmoidGrad", {c.dy(), c.y()}));
    })};

extern constexpr OpDef kSigmoidGrad = {
    .name = "SigmoidGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference =
        Pairwise<Floats>([](auto dy, auto y) { return dy * y * (1 - y); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

// --- y = tanh(x); dx = dy (1 - y^2)

extern constexpr OpDef kTanh = {
    .name = "Tanh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::tanh(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("TanhGrad", {c.dy(), c.y()}));
    })};

extern constexpr OpDef kTanhGrad = {
    .name = "TanhGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference =
        Pairwise<Floats>([](auto dy, auto y) { return dy * (1 - y * y); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

// --- others without a gradient op of their own

// y = log(1 + exp(x)), written so that a large x does not overflow
extern constexpr OpDef kSoftplus = {
    .name = "Softplus",
    .infer = SameAsInput,
    .reference = Unary<Floats, 10>([](auto x) {
      using T = decltype(x);
      return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() * c.build().Op("Sigmoid", {c.x()}));
    })};

// y = x / (1 + |x|)
extern constexpr OpDef kSoftsign = {
    .name = "Softsign",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return x / (1 + std::abs(x)); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(SoftsignGradient)};

// y = x where x >= 0, alpha (exp(x) - 1) elsewhere
extern constexpr OpDef kElu = {
    .name = "Elu",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats, 5>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1)](auto x) {
        return x < 0 ? static_cast<decltype(x)>(alpha) * std::expm1(x) : x;
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(EluGradient)};

// y = gamma (x where x > 0, alpha (exp(x) - 1) elsewhere)
extern constexpr OpDef kSelu = {
    .name = "Selu",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats, 5>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 1.67326319217681884765625f),
              gamma = node.Float("gamma", 1.05070102214813232421875f)](auto x) {
        using T = decltype(x);
        return static_cast<T>(gamma) *
               (x > 0 ? x : static_cast<T>(alpha) * std::expm1(x));
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(SeluGradient)};

// y = max(0, min(1, alpha x + beta))
extern constexpr OpDef kHardSigmoid = {
    .name = "HardSigmoid",
    .infer = SameAsInput,
    .reference = UnaryWith<Floats>([](const OpNode& node) {
      return [alpha = node.Float("alpha", 0.2f),
              beta = node.Float("beta", 0.5f)](auto x) {
        using T = decltype(x);
        return std::clamp(static_cast<T>(alpha) * x + static_cast<T>(beta),
                          T{0}, T{1});
      };
    }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(HardSigmoidGradient)};

// y = x max(0, min(1, x / 6 + 1 / 2))
extern constexpr OpDef kHardSwish = {.name = "HardSwish",
                                     .infer = SameAsInput,
                                     .reference = Unary<Floats>([](auto x) {
                                       using T = decltype(x);
                                       return x * std::clamp(x / 6 + T{1} / 2,
                                                             T{0}, T{1});
                                     }),
                                     .may_overwrite = {0},
                                     .keeps_zero = true,
                                     .cheap = true,
                                     .gradient = Rule(HardSwishGradient)};

}  // namespace strop::ops
