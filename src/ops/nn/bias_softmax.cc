// SPDX-License-Identifier: Apache-2.0
//
// Softmax of attention scores as ONNX Runtime fuses it: with a mask added
// before and a dropout behind. All axes from `axis` on are normalized
// together.
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/nn/dropout.h"
#include "ops/nn/softmax.h"

namespace strop::ops {
namespace {

// data, bias -> y. `is_inner_broadcast` says along which axes the bias is
// repeated; its shape says so as well.
void InferBiasSoftmax(InferContext& c) {
  RequireSameType(c, 0, 1);
  CoercedSizes(c.node(), c.input(0).shape);
  RequireBroadcastTo(c.node(), "the bias", c.input(1).shape, c.input(0).shape);
  SameAsInput(c);
}

// y = softmax(x + bias)
template <class T>
void BiasSoftmax(const KernelContext& c, T* y) {
  const T* x = c.in<T>(0).data();
  const T* bias = c.in<T>(1).data();
  const BroadcastLoop<1> loop(c.input(0).shape(), {&c.input(1).shape()});
  c.ParallelFor(c.input(0).element_count(), 1, [&](int64_t begin, int64_t end) {
    loop.Run(begin, end,
             [&](int64_t out, const std::array<int64_t, 1>& in, int64_t count) {
               for (int64_t j = 0; j < count; ++j) {
                 y[out + j] = x[out + j] + bias[in[0] + j * loop.step(0)];
               }
             });
  });
  const AxisSizes s = CoercedSizes(c.node(), c.input(0).shape());
  ForEachLine(c, s, 6,
              [&](int64_t offset) { SoftmaxLine(y + offset, s, y + offset); });
}

// data, bias, ratio -> dropped, mask, softmax
void InferBiasSoftmaxDropout(InferContext& c) {
  InferBiasSoftmax(c);
  CheckSettings(c, 2);
  c.SetOutput(1, DataType::kBool, c.input(0).shape);
  c.SetOutput(2, c.input(0).type, c.input(0).shape);
}

// The mask is drawn in any case; the op is part of training graphs only.
template <class T>
void BiasSoftmaxDropout(const KernelContext& c) {
  const Dropper dropper(c, ReadRatio(c, 2));
  T* dropped = c.out<T>(0).data();
  T* softmax = c.has_output(2) ? c.out<T>(2).data() : dropped;
  bool* mask = c.has_output(1) ? c.out<bool>(1).data() : nullptr;
  BiasSoftmax<T>(c, softmax);
  const T scale = static_cast<T>(dropper.scale());
  c.ParallelFor(c.input(0).element_count(), 10,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const bool keeps = dropper.Keeps(i);
                    dropped[i] = keeps ? softmax[i] * scale : T{0};
                    if (mask) mask[i] = keeps;
                  }
                });
}

// dy, mask, softmax, ratio -> dx
void InferSoftmaxDropoutGrad(InferContext& c) {
  c.node().Int("axis");
  CoercedSizes(c.node(), c.input(0).shape);
  RequireType(c, 1, DataType::kBool);
  RequireShape(c, 1, c.input(0).shape);
  RequireSame(c, 0, 2);
  CheckSettings(c, 3);
  SameAsInput(c);
}

// dx = y (g - sum(y g)), g the gradient before the dropout
template <class T>
void SoftmaxDropoutGrad(const KernelContext& c) {
  const AxisSizes s = CoercedSizes(c.node(), c.input(0).shape());
  const T scale = static_cast<T>(1 / (1 - ReadRatio(c, 3)));
  const T* dy = c.in<T>(0).data();
  const bool* mask = c.in<bool>(1).data();
  const T* y = c.in<T>(2).data();
  T* dx = c.out<T>(0).data();
  ForEachLine(c, s, 3, [&](int64_t offset) {
    double sum = 0;
    for (int64_t i = offset; i < offset + s.size; ++i) {
      dx[i] = mask[i] ? dy[i] * scale : T{0};
      sum += static_cast<double>(y[i]) * static_cast<double>(dx[i]);
    }
    for (int64_t i = offset; i < offset + s.size; ++i) {
      dx[i] = y[i] * (dx[i] - static_cast<T>(sum));
    }
  });
}

// --- Gradients

void SetSumGradient(GradientContext& c, Var dx) {
  c.Set(0, dx);
  if (c.needs(1)) c.Set(1, c.build().ReduceToShapeOf(dx, c.x(0), c.x(1)));
}

// That of the softmax over all axes from `axis` on.
Var SoftmaxGradient(GradientContext& c, Var dy, Var y) {
  return c.build().MicrosoftOp("SoftmaxGrad", {dy, y},
                               {{"axis", c.node().Int("axis", 1)}});
}

void BiasSoftmaxGradient(GradientContext& c) {
  SetSumGradient(c, SoftmaxGradient(c, c.dy(), c.y()));
}

void BiasSoftmaxDropoutGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var mask = c.AddedOutput(1, "mask", DataType::kBool);
  const Var softmax = c.AddedOutput(2, "softmax", b.type(c.x()));
  Var dx;
  if (c.has_dy(0)) {
    dx = b.MicrosoftOp("SoftmaxDropoutGrad", {c.dy(), mask, softmax, c.x(2)},
                       {{"axis", c.node().Int("axis", 1)}});
  }
  if (c.has_dy(2)) {
    const Var part = SoftmaxGradient(c, c.dy(2), softmax);
    dx = dx ? dx + part : part;
  }
  SetSumGradient(c, dx);
}

}  // namespace

extern constexpr OpDef kBiasSoftmax = {
    .name = "BiasSoftmax",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferBiasSoftmax,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      BiasSoftmax<T>(c, c.out<T>(0).data());
    }),
    .gradient = Rule(BiasSoftmaxGradient)};

extern constexpr OpDef kBiasSoftmaxDropout = {
    .name = "BiasSoftmaxDropout",
    .domain = kMicrosoft,
    .inputs = {2, 3},
    .outputs = {1, 3},
    .infer = InferBiasSoftmaxDropout,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BiasSoftmaxDropout<T>(c); }),
    .gradient = Rule(BiasSoftmaxDropoutGradient),
    .stops_gradient = {2},
    .is_random = true};

extern constexpr OpDef kSoftmaxDropoutGrad = {
    .name = "SoftmaxDropoutGrad",
    .domain = kMicrosoft,
    .inputs = {3, 4},
    .infer = InferSoftmaxDropoutGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { SoftmaxDropoutGrad<T>(c); })};

}  // namespace strop::ops
