// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

void InferClip(InferContext& c) {
  for (size_t i = 1; i < 3; ++i) {
    if (!c.has_input(i)) continue;
    RequireSameType(c, 0, i);
    RequireOneElement(c, i);
  }
  SameAsInput(c);
}

// --- Gradients

// The sum of what arrives where `condition` holds, in the shape of the bound.
Var SumWhere(GradientContext& c, Var condition, Var bound) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.x()));
  const Var sum = b.ReduceSum(b.Where(condition, c.dy(), zero), {}, false);
  return b.Reshape(sum, b.Shape(bound));
}

// Bounds are inclusive: x at a bound gets the gradient, the bound none. Where
// the lower bound is above the upper one, all is the upper one.
void ClipGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var x = c.x(), low = c.x(1), high = c.x(2);
  if (!low && !high) return c.Set(0, c.dy());
  Var below, above;
  if (low) below = b.Compare("Less", x, low);
  if (high) above = b.Compare("Greater", low ? b.Op("Max", {x, low}) : x, high);
  const Var outside = !low    ? above
                      : !high ? below
                              : b.Compare("Or", below, above);
  if (c.needs(0)) c.Set(0, b.Where(outside, b.Scalar(0, b.type(x)), c.dy()));
  if (c.needs(2)) c.Set(2, SumWhere(c, above, high));
  if (!c.needs(1)) return;
  if (above) below = b.Compare("And", below, b.Op("Not", {above}));
  c.Set(1, SumWhere(c, below, low));
}

}  // namespace

// y = min(max(x, low), high). NaN passes through; high wins over low.
extern constexpr OpDef kClip = {
    .name = "Clip",
    .inputs = {1, 3},
    .infer = InferClip,
    .reference = Instantiate<Numbers>([]<class T>(const KernelContext& c) {
      using Limits = std::numeric_limits<T>;
      const T infinity =
          Limits::has_infinity ? Limits::infinity() : Limits::max();
      const T low = c.has_input(1)         ? c.scalar<T>(1)
                    : Limits::has_infinity ? static_cast<T>(-infinity)
                                           : Limits::lowest();
      const T high = c.has_input(2) ? c.scalar<T>(2) : infinity;
      const T* x = c.in<T>(0).data();
      T* y = c.out<T>(0).data();
      c.ParallelFor(c.output(0).element_count(), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const T at_least = x[i] < low ? low : x[i];
                        y[i] = at_least > high ? high : at_least;
                      }
                    });
    }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(ClipGradient)};

}  // namespace strop::ops
