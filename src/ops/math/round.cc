// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"

namespace strop::ops {

extern constexpr OpDef kCeil = {
    .name = "Ceil",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return std::ceil(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

extern constexpr OpDef kFloor = {
    .name = "Floor",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return std::floor(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

// Halves go to the even neighbour, as the default rounding mode has it.
extern constexpr OpDef kRound = {
    .name = "Round",
    .infer = SameAsInput,
    .reference = Unary<Floats>([](auto x) { return std::nearbyint(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

}  // namespace strop::ops
