// SPDX-License-Identifier: Apache-2.0
//
// Ops over any number of inputs, with broadcasting.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {

// NaN wins over any number.
template <class T>
T Smaller(T a, T b) {
  return b < a || b != b ? b : a;
}
template <class T>
T Larger(T a, T b) {
  return b > a || b != b ? b : a;
}

namespace {

// --- Gradients

// Inputs that are equal to the result share the gradient evenly.
void ExtremeGradient(GradientContext& c) {
  if (c.input_count() == 1) return c.Set(0, c.dy());
  GraphBuilder& b = c.build();
  std::vector<Var> chosen;
  for (size_t i = 0; i < c.input_count(); ++i) {
    chosen.push_back(b.Cast(b.Compare("Equal", c.x(i), c.y()), b.type(c.y())));
  }
  const Var part = c.dy() / b.Op("Sum", chosen);
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.needs(i)) c.SetReduced(i, part * chosen[i]);
}

}  // namespace

// Input 0 and 1 may be overwritten, not later ones: they are read after the
// output has been written once.
extern constexpr OpDef kSum = {
    .name = "Sum",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Variadic<Floats>([](auto a, auto b) { return a + b; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      for (size_t i = 0; i < c.input_count(); ++i) c.SetReduced(i, c.dy());
    })};

extern constexpr OpDef kMin = {
    .name = "Min",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference =
        Variadic<Numbers>([](auto a, auto b) { return Smaller(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(ExtremeGradient)};

extern constexpr OpDef kMax = {
    .name = "Max",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Variadic<Numbers>([](auto a, auto b) { return Larger(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(ExtremeGradient)};

extern constexpr OpDef kMean = {
    .name = "Mean",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      Variadic<TypeList<T>>([](auto a, auto b) { return a + b; }).run(c);
      const T scale = T{1} / static_cast<T>(c.input_count());
      T* y = c.out<T>(0).data();
      c.ParallelFor(c.output(0).element_count(), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) y[i] *= scale;
                    });
    }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      const Var part = c.dy() / static_cast<double>(c.input_count());
      for (size_t i = 0; i < c.input_count(); ++i) c.SetReduced(i, part);
    })};

}  // namespace strop::ops
