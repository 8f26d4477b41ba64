// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

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
    .stops_gradient = {1, 2}};

}  // namespace strop::ops
