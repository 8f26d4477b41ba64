// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

extern constexpr OpDef kExp = {
    .name = "Exp",
    .infer = SameAsInput,
    .reference = Unary<Floats, 4>([](auto x) { return std::exp(x); }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule([](GradientContext& c) { c.Set(0, c.dy() * c.y()); })};

extern constexpr OpDef kLog = {
    .name = "Log",
    .infer = SameAsInput,
    .reference = Unary<Floats, 4>([](auto x) { return std::log(x); }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule([](GradientContext& c) { c.Set(0, c.dy() / c.x()); })};

extern constexpr OpDef kSqrt = {
    .name = "Sqrt",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return std::sqrt(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient =
        Rule([](GradientContext& c) { c.Set(0, c.dy() * (0.5 / c.y())); })};

// y = 1 / x
extern constexpr OpDef kReciprocal = {
    .name = "Reciprocal",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return 1 / x; }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(
        [](GradientContext& c) { c.Set(0, -(c.dy() * (c.y() * c.y()))); })};

// y = 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; integers (until
// opset 12) cut off the fraction
extern constexpr OpDef kErf = {
    .name = "Erf",
    .infer = SameAsInput,
    .reference = Unary<Numbers, 8>([](auto x) { return std::erf(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      const Var x = c.x();
      c.Set(0, c.dy() * (std::numbers::inv_sqrtpi * 2 *
                         c.build().Op("Exp", {-(x * x)})));
    })};

}  // namespace strop::ops
