// SPDX-License-Identifier: Apache-2.0
#include "base/round.h"
#include "ops/gradient.h"
#include "ops/nn/conv_kernels.h"

namespace strop::ops {

ConvSizes ReadConvSizes(const OpNode& node, const Shape& x, const Shape& w) {
  ConvSizes s;
  s.window = ConvWindow(node, x, w);
  s.group = node.Int("group", 1);
  s.batch = x[0];
  s.in_channels = x[1];
  s.out_channels = w[0];
  if (s.group < 1 || s.in_channels % s.group != 0 ||
      s.out_channels % s.group != 0 || s.group_in() != w[1]) {
    Fail(node, "input {} and weight {} do not fit with group {}", x.ToString(),
         w.ToString(), s.group);
  }
  return s;
}

namespace {

void InferConv(InferContext& c) {
  RequireSameType(c, 0, 1);
  const ConvSizes s =
      ReadConvSizes(c.node(), c.input(0).shape, c.input(1).shape);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireShape(c, 2, {s.out_channels});
  }
  c.SetOutput(0, c.input(0).type,
              WindowOutputShape(s.window, s.batch, s.out_channels));
}

// dY, X, W -> dX, dW, dB, each optional
void InferConvGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireSameType(c, 0, 2);
  const TensorInfo& x = c.input(1);
  const TensorInfo& w = c.input(2);
  const ConvSizes s = ReadConvSizes(c.node(), x.shape, w.shape);
  RequireShape(c, 0, WindowOutputShape(s.window, s.batch, s.out_channels));
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, w.type, w.shape);
  c.SetOutput(2, w.type, {s.out_channels});
}

template <class T>
void ConvGrad(const KernelContext& c) {
  const ConvSizes s =
      ReadConvSizes(c.node(), c.input(1).shape(), c.input(2).shape());
  const T* dy = c.in<T>(0).data();
  if (c.has_output(0)) {
    ConvBackwardInput<T>(c, s, dy, c.in<T>(2).data(), c.out<T>(0).data());
  }
  if (c.has_output(1)) {
    ConvBackwardWeight<T>(c, s, dy, c.in<T>(1).data(), c.out<T>(1).data(),
                          /*accumulate=*/false);
  }
  if (c.has_output(2)) {
    ConvBackwardBias<T>(c, s, dy, c.out<T>(2).data(), /*accumulate=*/false);
  }
}

// --- Gradients

// The attributes with pads in place of auto_pad, which ONNX Runtime's
// gradient does not look at, where the sizes are known.
Attributes ExplicitPads(GradientContext& c) {
  Attributes attributes = c.attributes();
  const std::string auto_pad(c.node().String("auto_pad", "NOTSET"));
  if (auto_pad == "NOTSET") return attributes;
  const auto x = c.build().static_dims(c.x(0)),
             w = c.build().static_dims(c.x(1));
  if (auto_pad != "VALID" && (!x || !w)) return attributes;
  std::erase_if(attributes,
                [](const auto& entry) { return entry.first == "auto_pad"; });
  if (auto_pad == "VALID") return attributes;
  const auto strides = c.node().Ints("strides");
  const auto dilations = c.node().Ints("dilations");
  const size_t axes = x->size() - 2;
  std::vector<int64_t> pads(2 * axes);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t stride = strides.empty() ? 1 : strides[i];
    const int64_t dilation = dilations.empty() ? 1 : dilations[i];
    const int64_t size = (*x)[i + 2];
    const int64_t total =
        std::max<int64_t>(0, (CeilDiv(size, stride) - 1) * stride +
                                 ((*w)[i + 2] - 1) * dilation + 1 - size);
    const int64_t small = total / 2, large = total - small;
    pads[i] = auto_pad == "SAME_UPPER" ? small : large;
    pads[axes + i] = total - pads[i];
  }
  attributes.emplace_back("pads", std::move(pads));
  return attributes;
}

void ConvGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Attributes attributes = ExplicitPads(c);
  DataType types[3];
  for (size_t i = 0; i < 3; ++i)
    types[i] = c.needs(i) ? type : DataType::kUndefined;
  const Var inputs[] = {c.dy(), c.x(0), c.x(1)};
  const auto gradients =
      b.Ops("ConvGrad", inputs, types, attributes, kMicrosoft);
  for (size_t i = 0; i < 3; ++i) c.Set(i, gradients[i]);
}

}  // namespace

// Y[n, m, o] = B[m] + sum over c and taps k of
//              W[m, c, k] X[n, c, o stride - pad + k dilation]
extern constexpr OpDef kConv = {
    .name = "Conv",
    .inputs = {2, 3},
    .infer = InferConv,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      ConvForward<T>(
          c, ReadConvSizes(c.node(), c.input(0).shape(), c.input(1).shape()),
          c.in<T>(0).data(), c.in<T>(1).data(),
          c.has_input(2) ? c.in<T>(2).data() : nullptr, c.out<T>(0).data());
    }),
    .gradient = Rule(ConvGradient)};

extern constexpr OpDef kConvGrad = {
    .name = "ConvGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .outputs = {0, 3},
    .infer = InferConvGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ConvGrad<T>(c); })};

}  // namespace strop::ops
