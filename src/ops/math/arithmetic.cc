// SPDX-License-Identifier: Apache-2.0
//
// The four basic operations, with broadcasting.
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

void AddGradient(GradientContext& c) {
  c.SetReduced(0, c.dy());
  c.SetReduced(1, c.dy());
}

void SubGradient(GradientContext& c) {
  c.SetReduced(0, c.dy());
  if (c.needs(1)) c.SetReduced(1, -c.dy());
}

void MulGradient(GradientContext& c) {
  if (c.needs(0)) c.SetReduced(0, c.dy() * c.x(1));
  if (c.needs(1)) c.SetReduced(1, c.dy() * c.x(0));
}

// db = -dy a / b^2
void DivGradient(GradientContext& c) {
  if (c.needs(0)) c.SetReduced(0, c.dy() / c.x(1));
  if (c.needs(1)) c.SetReduced(1, -(c.dy() * c.y()) / c.x(1));
}

}  // namespace

extern constexpr OpDef kAdd = {
    .name = "Add",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Numbers>([](auto a, auto b) { return Plus(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(AddGradient)};

extern constexpr OpDef kSub = {
    .name = "Sub",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Numbers>([](auto a, auto b) { return Minus(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(SubGradient)};

extern constexpr OpDef kMul = {
    .name = "Mul",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Binary<Numbers>([](auto a, auto b) { return Times(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(MulGradient)};

namespace {

template <class T>
T Divide(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    // The lowest number over -1 does not fit: it wraps around.
    if (b == -1) return Minus(T{0}, a);
  }
  return a / b;
}

}  // namespace

// Integers truncate towards zero; an integer divisor of zero is an error.
extern constexpr OpDef kDiv = {
    .name = "Div",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Instantiate<Numbers>([]<class T>(const KernelContext& c) {
      if constexpr (std::is_integral_v<T>) {
        for (const T b : c.in<T>(1)) {
          if (b == 0) Fail(c.node(), "division of integers by zero");
        }
      }
      RunBinary<T, T, T>(c, c.input(0), c.input(1), c.output(0), 2,
                         [](T a, T b) { return Divide(a, b); });
    }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .gradient = Rule(DivGradient)};

}  // namespace strop::ops
