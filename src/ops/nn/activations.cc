// SPDX-License-Identifier: Apache-2.0
//
// Activations and their gradients. A gradient takes dY and the input or
// output of the forward op, whichever the formula needs.
#include "ops/activations.h"

#include "ops/elementwise.h"

namespace strop::ops {

// --- y = max(x, 0); dx = dy where x (or y) > 0. NaN stays NaN.

extern constexpr OpDef kRelu = {.name = "Relu",
                                .infer = SameAsInput,
                                .reference = Unary<Numbers>([](auto x) {
                                  using T = decltype(x);
                                  return x < 0 ? T{0} : x;
                                }),
                                .may_overwrite = {0},
                                .keeps_zero = true,
                                .cheap = true};

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
    .cheap = true};

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
    .cheap = true};

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
    .cheap = true};

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
extern constexpr OpDef kSoftplus = {.name = "Softplus",
                                    .infer = SameAsInput,
                                    .reference = Unary<Floats, 10>([](auto x) {
                                      using T = decltype(x);
                                      return std::max(x, T{0}) +
                                             std::log1p(std::exp(-std::abs(x)));
                                    }),
                                    .may_overwrite = {0}};

// y = x / (1 + |x|)
extern constexpr OpDef kSoftsign = {
    .name = "Softsign",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return x / (1 + std::abs(x)); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true};

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
    .keeps_zero = true};

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
    .keeps_zero = true};

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
    .cheap = true};

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
                                     .cheap = true};

}  // namespace strop::ops
