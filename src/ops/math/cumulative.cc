// SPDX-License-Identifier: Apache-2.0
//
// Running sums and products along the axis in input 1; `exclusive` leaves
// element i out of result i, `reverse` starts at the end.
#include "ops/axis.h"
#include "ops/gradient.h"
#include "ops/reduce.h"

namespace strop::ops {
namespace {

using RunningTypes =
    TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;

void InferCumulative(InferContext& c) {
  RequireIndices(c, 1);
  RequireOneElement(c, 1);
  SameAsInput(c);
}

// to[i] = combine(... combine(first, from[0]) ..., from[i])
template <class T, class F>
void Accumulate(const KernelContext& c, Wide<T> first, F combine) {
  const Shape& x = c.input(0).shape();
  const AxisSizes s =
      SizesAlong(x, NormalizeAxis(c.node(), IndexAt(c.input(1), 0), x.rank()));
  const bool exclusive = c.node().Int("exclusive", 0) != 0;
  const bool reverse = c.node().Int("reverse", 0) != 0;
  const T* from = c.in<T>(0).data();
  T* to = c.out<T>(0).data();
  c.ParallelFor(
      s.lines(), static_cast<double>(s.size), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const int64_t start = s.Start(line);
          Wide<T> total = first;
          for (int64_t i = 0; i < s.size; ++i) {
            const int64_t at = start + (reverse ? s.size - 1 - i : i) * s.inner;
            const Wide<T> next = combine(total, static_cast<Wide<T>>(from[at]));
            to[at] = static_cast<T>(exclusive ? total : next);
            total = next;
          }
        }
      });
}

}  // namespace

// y[i] = x[0] + ... + x[i]
extern constexpr OpDef kCumSum = {
    .name = "CumSum",
    .inputs = {2, 2},
    .infer = InferCumulative,
    .reference = Instantiate<RunningTypes>([]<class T>(const KernelContext& c) {
      Accumulate<T>(c, 0, [](Wide<T> a, Wide<T> b) { return a + b; });
    }),
    .may_overwrite = {0},
    .gradient = Rule([](GradientContext& c) {
      const int64_t reverse = c.node().Int("reverse", 0);
      c.Set(0, c.build().Op("CumSum", {c.dy(), c.x(1)},
                            {{"exclusive", c.node().Int("exclusive", 0)},
                             {"reverse", int64_t{reverse == 0}}}));
    }),
    .stops_gradient = {1}};

// y[i] = x[0] * ... * x[i]
extern constexpr OpDef kCumProd = {
    .name = "CumProd",
    .inputs = {2, 2},
    .infer = InferCumulative,
    .reference = Instantiate<RunningTypes>([]<class T>(const KernelContext& c) {
      Accumulate<T>(c, 1, [](Wide<T> a, Wide<T> b) { return a * b; });
    }),
    .may_overwrite = {0},
    .stops_gradient = {1}};

}  // namespace strop::ops
