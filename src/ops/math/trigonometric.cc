// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

extern constexpr OpDef kSin = {
    .name = "Sin",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::sin(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() * c.build().Op("Cos", {c.x()}));
    })};

extern constexpr OpDef kCos = {
    .name = "Cos",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::cos(x); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, -(c.dy() * c.build().Op("Sin", {c.x()})));
    })};

extern constexpr OpDef kTan = {
    .name = "Tan",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::tan(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(
        [](GradientContext& c) { c.Set(0, c.dy() * (1 + c.y() * c.y())); })};

extern constexpr OpDef kAsin = {
    .name = "Asin",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::asin(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() / c.build().Op("Sqrt", {1 - c.x() * c.x()}));
    })};

extern constexpr OpDef kAcos = {
    .name = "Acos",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::acos(x); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, -(c.dy() / c.build().Op("Sqrt", {1 - c.x() * c.x()})));
    })};

extern constexpr OpDef kAtan = {
    .name = "Atan",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::atan(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(
        [](GradientContext& c) { c.Set(0, c.dy() / (1 + c.x() * c.x())); })};

extern constexpr OpDef kSinh = {
    .name = "Sinh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::sinh(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() * c.build().Op("Cosh", {c.x()}));
    })};

extern constexpr OpDef kCosh = {
    .name = "Cosh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::cosh(x); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() * c.build().Op("Sinh", {c.x()}));
    })};

extern constexpr OpDef kAsinh = {
    .name = "Asinh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::asinh(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() / c.build().Op("Sqrt", {c.x() * c.x() + 1}));
    })};

extern constexpr OpDef kAcosh = {
    .name = "Acosh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::acosh(x); }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy() / c.build().Op("Sqrt", {c.x() * c.x() - 1}));
    })};

extern constexpr OpDef kAtanh = {
    .name = "Atanh",
    .infer = SameAsInput,
    .reference = Unary<Floats, 8>([](auto x) { return std::atanh(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .gradient = Rule(
        [](GradientContext& c) { c.Set(0, c.dy() / (1 - c.x() * c.x())); })};

}  // namespace strop::ops
