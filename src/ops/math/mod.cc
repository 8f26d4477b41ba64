// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

// What a division that rounds towards zero leaves: it has the sign of a.
template <class T>
T TruncatedMod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;  // the lowest number over -1 does not fit
    }
    return static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
}

// What a division that rounds down leaves: it has the sign of b.
template <class T>
T FlooredMod(T a, T b) {
  const T rest = TruncatedMod(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    if (rest == 0) return std::copysign(T{0}, b);
  }
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

template <class T>
void Mod(const KernelContext& c) {
  if constexpr (std::is_integral_v<T>) {
    for (const T b : c.in<T>(1)) {
      if (b == 0) Fail(c.node(), "division of integers by zero");
    }
  }
  const auto run = [&](auto f) {
    RunBinary<T, T, T>(c, c.input(0), c.input(1), c.output(0), 10, f);
  };
  if (c.node().Int("fmod", 0) != 0) {
    run([](T a, T b) { return TruncatedMod(a, b); });
  } else {
    run([](T a, T b) { return FlooredMod(a, b); });
  }
}

// --- Gradients

// a mod b = a - b n, with n = a / b rounded to zero (fmod) or down
void ModGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  c.SetReduced(0, c.dy());
  if (!c.needs(1)) return;
  const Var ratio = c.x(0) / c.x(1);
  Var whole;
  if (c.node().Int("fmod", 0) == 0) {
    whole = b.Op("Floor", {ratio});
  } else {
    const Var size = b.Op("Floor", {b.Op("Abs", {ratio})});
    whole = b.Op("Sign", {ratio}) * size;
  }
  c.SetReduced(1, -(c.dy() * whole));
}

}  // namespace

// c = a - floor(a / b) b, or a - trunc(a / b) b with attribute fmod. An
// integer divisor of zero is an error; a float one gives NaN.
extern constexpr OpDef kMod = {
    .name = "Mod",
    .inputs = {2, 2},
    .infer = BroadcastInputs,
    .reference = Instantiate<Numbers>(
        []<class T>(const KernelContext& c) { Mod<T>(c); }),
    .may_overwrite = {0, 1},
    .cheap = true,
    .gradient = Rule(ModGradient)};

}  // namespace strop::ops
