// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic that gradient graphs add.
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

void InferScale(InferContext& c) {
  RequireOneElement(c, 1);
  SameAsInput(c);
}

// dY, A, B -> dA, dB
void InferDivGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireSameType(c, 0, 2);
  RequireShape(c, 0,
               BroadcastShapes(c.node(), c.input(1).shape, c.input(2).shape));
  c.SetOutput(0, c.input(0).type, c.input(1).shape);
  c.SetOutput(1, c.input(0).type, c.input(2).shape);
}

// Sums f(dy, a, b) over the axes along which `target` was broadcast.
template <class T, class F>
void SumTo(const KernelContext& c, size_t output, F&& f) {
  const T* dy = c.in<T>(0).data();
  const T* a = c.in<T>(1).data();
  const T* b = c.in<T>(2).data();
  T* sum = c.out<T>(output).data();
  FillZero(c.output(output));
  const BroadcastLoop<3> loop(
      c.input(0).shape(),
      {&c.input(1).shape(), &c.input(2).shape(), &c.output(output).shape()});
  loop.Run(0, c.input(0).element_count(),
           [&](int64_t o, const std::array<int64_t, 3>& in, int64_t count) {
             for (int64_t j = 0; j < count; ++j) {
               sum[in[2] + j * loop.step(2)] +=
                   f(dy[o + j], a[in[0] + j * loop.step(0)],
                     b[in[1] + j * loop.step(1)]);
             }
           });
}

}  // namespace

// y = x scale, or x / scale with scale_down; the scale has one element of
// any numeric type.
extern constexpr OpDef kScale = {
    .name = "Scale",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferScale,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      double scale = ScalarAsDouble(c.node(), c.input(1));
      if (c.node().Int("scale_down", 0) != 0) {
        if (scale == 0) Fail(c.node(), "the scale to divide by is 0");
        scale = 1 / scale;
      }
      const T factor = static_cast<T>(scale);
      const T* x = c.in<T>(0).data();
      T* y = c.out<T>(0).data();
      c.ParallelFor(c.output(0).element_count(), 0.5,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        y[i] = x[i] * factor;
                      }
                    });
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0,
            c.build().MicrosoftOp("Scale", {c.dy(), c.x(1)}, c.attributes()));
    }),
    .stops_gradient = {1}};

// y = a / b: da = dy / b and db = -dy a / b^2, each summed over the axes
// along which its operand was broadcast.
extern constexpr OpDef kDivGrad = {
    .name = "DivGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .outputs = {0, 2},
    .infer = InferDivGrad,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      if (c.has_output(0)) {
        SumTo<T>(c, 0, [](T dy, T, T b) { return dy / b; });
      }
      if (c.has_output(1)) {
        SumTo<T>(c, 1, [](T dy, T a, T b) { return -dy * a / (b * b); });
      }
    })};

}  // namespace strop::ops
