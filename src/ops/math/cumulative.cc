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

// dx[j] = sum over i of dy[i] times the product of the x before i without x[j],
// as a product of those before j and a sum that runs backwards; no division,
// so that zeros do no harm:
//   s[j] = dy[j] + x[j + 1] s[j + 1], exclusive: dy[j + 1] + x[j + 1] s[j + 1]
template <class T>
void CumProdGrad(const KernelContext& c) {
  const Shape& x_shape = c.input(1).shape();
  const AxisSizes s = SizesAlong(
      x_shape, NormalizeAxis(c.node(), IndexAt(c.input(2), 0), x_shape.rank()));
  const bool exclusive = c.node().Int("exclusive", 0) != 0;
  const bool reverse = c.node().Int("reverse", 0) != 0;
  const T* dy = c.in<T>(0).data();
  const T* x = c.in<T>(1).data();
  T* dx = c.out<T>(0).data();
  const auto run_line = [&](int64_t start) {
    const auto at = [&](int64_t i) {
      return start + (reverse ? s.size - 1 - i : i) * s.inner;
    };
    double before = 1, rest = 0;
    for (int64_t j = 0; j < s.size; ++j) {
      dx[at(j)] = static_cast<T>(before);
      before *= static_cast<double>(x[at(j)]);
    }
    for (int64_t j = s.size; j-- > 0;) {
      if (!exclusive) rest += static_cast<double>(dy[at(j)]);
      dx[at(j)] = static_cast<T>(static_cast<double>(dx[at(j)]) * rest);
      rest *= static_cast<double>(x[at(j)]);
      if (exclusive) rest += static_cast<double>(dy[at(j)]);
    }
  };
  c.ParallelFor(s.lines(), 2 * static_cast<double>(s.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t line = begin; line < end; ++line)
                    run_line(s.Start(line));
                });
}

void InferCumProdGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  RequireIndices(c, 2);
  RequireOneElement(c, 2);
  SameAsInput(c);
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
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().Op("CumProdGrad", {c.dy(), c.x(0), c.x(1)},
                            c.attributes(), kStrop));
    }),
    .stops_gradient = {1}};

// dY, X, axis -> dX, with the attributes of CumProd
extern constexpr OpDef kCumProdGrad = {
    .name = "CumProdGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .infer = InferCumProdGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { CumProdGrad<T>(c); })};

}  // namespace strop::ops
