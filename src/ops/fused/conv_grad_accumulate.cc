// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/conv_kernels.h"

namespace strop::ops {
namespace {

// dY, X, W, dW buffer, dB buffer (optional), overwrite
void InferAccumulate(InferContext& c) {
  for (size_t i = 1; i < 5; ++i) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  const TensorInfo& x = c.input(1);
  const TensorInfo& w = c.input(2);
  const ConvSizes s = ReadConvSizes(c.node(), x.shape, w.shape);
  RequireShape(c, 0, WindowOutputShape(s.window, s.batch, s.out_channels));
  RequireShape(c, 3, w.shape);
  const Shape bias = {s.out_channels};
  if (c.has_input(4)) RequireShape(c, 4, bias);
  RequireType(c, 5, DataType::kBool);
  RequireOneElement(c, 5);
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, w.type, w.shape);
  if (c.has_input(4)) {
    c.SetOutput(2, w.type, bias);
  } else if (c.has_output(2)) {
    Fail(c.node(), "output 2 needs a buffer at input 4");
  }
}

template <class T>
void ConvGradAccumulate(const KernelContext& c) {
  const ConvSizes s =
      ReadConvSizes(c.node(), c.input(1).shape(), c.input(2).shape());
  const bool accumulate = !c.scalar<bool>(5);
  const T* dy = c.in<T>(0).data();
  if (c.has_output(0)) {
    ConvBackwardInput<T>(c, s, dy, c.in<T>(2).data(), c.out<T>(0).data());
  }
  ConvBackwardWeight<T>(c, s, dy, c.in<T>(1).data(),
                        c.input(3).values<T>().data(), accumulate);
  if (c.has_input(4)) {
    ConvBackwardBias<T>(c, s, dy, c.input(4).values<T>().data(), accumulate);
  }
}

}  // namespace

// ConvGrad that adds to (or overwrites) the buffers of dW and dB. Outputs dX
// (optional), dW, dB.
extern constexpr OpDef kInternalConvGradAccumulate = {
    .name = "ConvGradAccumulate",
    .domain = kInternal,
    .inputs = {4, 6},
    .outputs = {0, 3},
    .infer = InferAccumulate,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ConvGradAccumulate<T>(c); }),
    .aliases = {{1, 3}, {2, 4}},
    .mutates = {3, 4}};

}  // namespace strop::ops
