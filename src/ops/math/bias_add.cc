// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// X (..., C), bias (C), skip like X
void InferBiasAdd(InferContext& c) {
  const Shape& x = c.input(0).shape;
  RequireSameType(c, 0, 1);
  RequireSame(c, 0, 2);
  if (x.rank() == 0) Fail(c.node(), "wants channels: X has no axis");
  RequireShape(c, 1, {x[x.rank() - 1]});
  SameAsInput(c);
}

template <class T>
void BiasAdd(const KernelContext& c) {
  const T* x = c.in<T>(0).data();
  const auto bias = c.in<T>(1);
  const T* skip = c.in<T>(2).data();
  T* y = c.out<T>(0).data();
  const auto channels = static_cast<int64_t>(bias.size());
  c.ParallelFor(
      c.output(0).element_count(), 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          y[i] = x[i] + bias[static_cast<size_t>(i % channels)] + skip[i];
        }
      });
}

}  // namespace

// Y = X + bias + skip, as ONNX Runtime's optimizer writes it.
extern constexpr OpDef kBiasAdd = {
    .name = "BiasAdd",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferBiasAdd,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BiasAdd<T>(c); }),
    .may_overwrite = {0, 2},
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.dy());
      c.SetReduced(1, c.dy());
      c.Set(2, c.dy());
    })};

}  // namespace strop::ops
