// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

// y = |x|
extern constexpr OpDef kAbs = {
    .name = "Abs",
    .infer = SameAsInput,
    .reference = Unary<Numbers>([](auto x) {
      using T = decltype(x);
      return x < 0 ? Minus(T{0}, x) : x + T{0};  // + 0: no negative zero
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() * c.build().Op("Sign", {c.x()}));
    })};

// y = -x
extern constexpr OpDef kNeg = {
    .name = "Neg",
    .infer = SameAsInput,
    .reference = Unary<Numbers>([](auto x) {
      using T = decltype(x);
      if constexpr (std::is_integral_v<T>) {
        return Minus(T{0}, x);
      } else {
        return -x;
      }
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) { c.Set(0, -c.dy()); })};

// y = -1, 0 or 1; NaN stays NaN.
extern constexpr OpDef kSign = {
    .name = "Sign",
    .infer = SameAsInput,
    .reference = Unary<Numbers>([](auto x) {
      using T = decltype(x);
      return x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : x;
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

}  // namespace strop::ops
