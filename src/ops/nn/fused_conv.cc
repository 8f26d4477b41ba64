// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_activation.h"
#include "ops/gradient_formula.h"
#include "ops/nn/conv_kernels.h"

namespace strop::ops {
namespace {

// X, W, B (optional), Z (optional)
void InferFusedConv(InferContext& c) {
  ReadConvActivation(c.node());
  const ConvSizes s =
      ReadConvSizes(c.node(), c.input(0).shape, c.input(1).shape);
  const Shape y = WindowOutputShape(s.window, s.batch, s.out_channels);
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  if (c.has_input(2)) RequireShape(c, 2, {s.out_channels});
  if (c.has_input(3)) RequireShape(c, 3, y);
  c.SetOutput(0, c.input(0).type, y);
}

template <class T>
void FusedConv(const KernelContext& c) {
  const auto y = c.out<T>(0);
  ConvForward<T>(
      c, ReadConvSizes(c.node(), c.input(0).shape(), c.input(1).shape()),
      c.in<T>(0).data(), c.in<T>(1).data(),
      c.has_input(2) ? c.in<T>(2).data() : nullptr, y.data());
  if (c.has_input(3)) {
    const auto z = c.in<T>(3);
    for (size_t i = 0; i < y.size(); ++i) y[i] += z[i];
  }
  Activate<T>(c, ReadConvActivation(c.node()), c.output(0));
}

// --- Gradients

std::vector<Var> FusedConvFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  Attributes attributes = c.attributes();
  std::erase_if(attributes, [](const auto& attribute) {
    return attribute.first.starts_with("activation");
  });
  const Var bias = c.has_input(2) ? c.x(2) : Var{};
  Var sum = b.Op("Conv", {c.x(0), c.x(1), bias}, attributes);
  b.SetDims(sum, b.dims(c.y()));
  if (c.has_input(3)) sum = sum + c.x(3);
  b.SetDims(sum, b.dims(c.y()));
  return {ActivationNode(b, ReadConvActivation(c.node()), sum)};
}

}  // namespace

// Y = activation(Conv(X, W, B) + Z), as ONNX Runtime's optimizer writes it.
extern constexpr OpDef kFusedConv = {
    .name = "FusedConv",
    .domain = kMicrosoft,
    .inputs = {2, 4},
    .infer = InferFusedConv,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { FusedConv<T>(c); }),
    .gradient = Rule(FromFormula<FusedConvFormula>)};

// The same, made for this run from nodes through which no gradient passes.
extern constexpr OpDef kInternalFusedConv = {
    .name = "FusedConv",
    .domain = kInternal,
    .inputs = {2, 4},
    .infer = InferFusedConv,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { FusedConv<T>(c); })};

}  // namespace strop::ops
