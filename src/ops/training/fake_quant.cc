// SPDX-License-Identifier: Apache-2.0
//
// What quantization does to a number, while training: q = round(x / scale) +
// zero point, cut to [quant_min, quant_max], and back. The gradient goes
// straight through where nothing was cut.
#include <cmath>

#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// x, scale, zero point -> y, whether x was not cut
void InferFakeQuant(InferContext& c) {
  for (const size_t i : {1, 2}) {
    RequireSameType(c, 0, i);
    RequireOneElement(c, i);
  }
  SameAsInput(c);
  c.SetOutput(1, DataType::kBool, c.input(0).shape);
}

template <class T>
void FakeQuant(const KernelContext& c) {
  const T scale = c.scalar<T>(1);
  if (scale == 0) Fail(c.node(), "the scale is 0");
  const T zero = std::trunc(c.scalar<T>(2));
  const T low = static_cast<T>(c.node().Int("quant_min", 0));
  const T high = static_cast<T>(c.node().Int("quant_max", 255));
  if (low > high) {
    Fail(c.node(), "quant_min {} is above quant_max {}", low, high);
  }
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  bool* mask = c.has_output(1) ? c.out<bool>(1).data() : nullptr;
  c.ParallelFor(c.input(0).element_count(), 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // Rounds half to even.
      const T q = std::nearbyint(x[i] / scale) + zero;
      y[i] = (std::clamp(q, low, high) - zero) * scale;
      if (mask) mask[i] = low <= q && q <= high;
    }
  });
}

// dy, mask -> dx
void InferFakeQuantGrad(InferContext& c) {
  RequireType(c, 1, DataType::kBool);
  RequireShape(c, 1, c.input(0).shape);
  SameAsInput(c);
}

}  // namespace

extern constexpr OpDef kFakeQuant = {
    .name = "FakeQuant",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .outputs = {1, 2},
    .infer = InferFakeQuant,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { FakeQuant<T>(c); }),
    .gradient = Rule([](GradientContext& c) {
      const Var mask = c.AddedOutput(1, "mask", DataType::kBool);
      c.Set(0, c.build().MicrosoftOp("FakeQuantGrad", {c.dy(), mask}));
    }),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kFakeQuantGrad = {
    .name = "FakeQuantGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferFakeQuantGrad,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const auto dy = c.in<T>(0);
      const auto mask = c.in<bool>(1);
      const auto dx = c.out<T>(0);
      for (size_t i = 0; i < dx.size(); ++i) dx[i] = mask[i] ? dy[i] : T{0};
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true};

}  // namespace strop::ops
