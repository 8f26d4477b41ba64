// SPDX-License-Identifier: Apache-2.0
//
// ConvTranspose: the gradient of a convolution with respect to its input, as
// an op of its own. X (N, C, in...), W (C, M / group, taps...), Y (N, M,
// out...). Everything is expressed by that convolution, which maps Y to X.
#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/nn/conv_kernels.h"

namespace strop::ops {
namespace {

ConvSizes ReadTransposedSizes(const OpNode& node, const Shape& x,
                              const Shape& w) {
  ConvSizes s;
  s.window = ConvTransposeWindow(node, x, w);
  s.group = node.Int("group", 1);
  s.batch = x[0];
  s.out_channels = x[1];
  if (s.group < 1 || x[1] != w[0] || x[1] % s.group != 0 ||
      MultiplyOverflows(w[1], s.group, &s.in_channels)) {
    Fail(node, "input {} and weight {} do not fit with group {}", x.ToString(),
         w.ToString(), s.group);
  }
  return s;
}

void InferConvTranspose(InferContext& c) {
  RequireSameType(c, 0, 1);
  const ConvSizes s =
      ReadTransposedSizes(c.node(), c.input(0).shape, c.input(1).shape);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireShape(c, 2, {s.in_channels});
  }
  c.SetOutput(0, c.input(0).type,
              WindowInputShape(s.window, s.batch, s.in_channels));
}

// Y[n, m] += B[m]
template <class T>
void AddBias(const KernelContext& c, const ConvSizes& s, const T* bias, T* y) {
  const int64_t size = s.window.input_size();
  c.ParallelFor(s.batch * s.in_channels, static_cast<double>(size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    T* plane = y + i * size;
                    const T b = bias[i % s.in_channels];
                    for (int64_t j = 0; j < size; ++j) plane[j] += b;
                  }
                });
}

template <class T>
void ConvTranspose(const KernelContext& c) {
  const ConvSizes s =
      ReadTransposedSizes(c.node(), c.input(0).shape(), c.input(1).shape());
  T* y = c.out<T>(0).data();
  ConvBackwardInput<T>(c, s, c.in<T>(0).data(), c.in<T>(1).data(), y);
  if (c.has_input(2)) AddBias<T>(c, s, c.in<T>(2).data(), y);
}

// dY, X, W -> dX, dW, dB, each optional
void InferConvTransposeGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireSameType(c, 0, 2);
  const TensorInfo& x = c.input(1);
  const TensorInfo& w = c.input(2);
  const ConvSizes s = ReadTransposedSizes(c.node(), x.shape, w.shape);
  RequireShape(c, 0, WindowInputShape(s.window, s.batch, s.in_channels));
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, w.type, w.shape);
  c.SetOutput(2, w.type, {s.in_channels});
}

// dX = the convolution of dY; dW = its weight's gradient, in which X stands
// for the gradient and dY for the input; dB = the sums of dY.
template <class T>
void ConvTransposeGrad(const KernelContext& c) {
  const ConvSizes s =
      ReadTransposedSizes(c.node(), c.input(1).shape(), c.input(2).shape());
  const T* dy = c.in<T>(0).data();
  if (c.has_output(0)) {
    ConvForward<T>(c, s, dy, c.in<T>(2).data(), nullptr, c.out<T>(0).data());
  }
  if (c.has_output(1)) {
    ConvBackwardWeight<T>(c, s, c.in<T>(1).data(), dy, c.out<T>(1).data(),
                          /*accumulate=*/false);
  }
  if (c.has_output(2)) {
    SumPlanes<T>(c, s.batch, s.in_channels, s.window.input_size(), dy,
                 c.out<T>(2).data(), /*accumulate=*/false);
  }
}

// --- Gradients

void ConvTransposeGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  DataType types[3];
  for (size_t i = 0; i < 3; ++i)
    types[i] = c.needs(i) ? type : DataType::kUndefined;
  const Var inputs[] = {c.dy(), c.x(0), c.x(1)};
  const auto gradients =
      b.Ops("ConvTransposeGrad", inputs, types, c.attributes(), kMicrosoft);
  for (size_t i = 0; i < 3; ++i) c.Set(i, gradients[i]);
}

}  // namespace

// Y[n, m, i stride - pad + k dilation] += X[n, c, i] W[c, m, k]; then + B[m]
extern constexpr OpDef kConvTranspose = {
    .name = "ConvTranspose",
    .inputs = {2, 3},
    .infer = InferConvTranspose,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ConvTranspose<T>(c); }),
    .gradient = Rule(ConvTransposeGradient)};

extern constexpr OpDef kConvTransposeGrad = {
    .name = "ConvTransposeGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .outputs = {0, 3},
    .infer = InferConvTransposeGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ConvTransposeGrad<T>(c); })};

}  // namespace strop::ops
