// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization with what follows it in a net, and the gradient of the
// whole:
//   z = BatchNormalization(X) + residual, Y = activation(z)
// The attributes activation (Relu or Clip) and activation_params are those of
// FusedConv.
#include <algorithm>

#include "ops/fused_activation.h"
#include "ops/nn/batch_norm.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

using Kind = FusedActivation::Kind;

FusedActivation ReadActivation(const OpNode& node) {
  const FusedActivation activation = ReadConvActivation(node);
  if (activation.kind != Kind::kNone && activation.kind != Kind::kRelu &&
      activation.kind != Kind::kClip) {
    Fail(node, ErrorCode::kNotImplemented,
         "activation is neither Relu nor Clip");
  }
  return activation;
}

// X, scale, bias, mean, variance, residual (optional)
void Infer(InferContext& c) {
  ReadActivation(c.node());
  InferBatchNorm(c);
  if (c.has_input(5)) RequireSame(c, 0, 5);
}

template <class T>
void Run(const KernelContext& c) {
  BatchNorm<T>(c, true);
  if (c.has_input(5)) {
    const auto y = c.out<T>(0);
    const auto residual = c.in<T>(5);
    for (size_t i = 0; i < y.size(); ++i) y[i] += residual[i];
  }
  Activate<T>(c, ReadActivation(c.node()), c.output(0));
}

// X, scale, bias, saved mean, saved 1 / sqrt(variance + epsilon), residual
// (optional)
void InferApply(InferContext& c) {
  ReadActivation(c.node());
  const Shape& x = c.input(0).shape;
  const Shape channels = {x.rank() > 1 ? x[1] : 1};
  for (size_t i = 0; i < 5; ++i) RequireFloat(c, i);
  for (size_t i = 1; i < 5; ++i) RequireShape(c, i, channels);
  if (c.has_input(5)) RequireSame(c, 0, 5);
  SameAsInput(c);
}

template <class T>
void RunApply(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const int64_t channels = shape.rank() > 1 ? shape[1] : 1;
  const int64_t inner =
      shape.element_count(std::min<size_t>(2, shape.rank()), shape.rank());
  const auto x = c.in<T>(0), scale = c.in<T>(1), bias = c.in<T>(2);
  const auto mean = c.in<T>(3), inverse = c.in<T>(4);
  const auto y = c.out<T>(0);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto k =
        static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
    y[i] = (x[i] - mean[k]) * (scale[k] * inverse[k]) + bias[k];
    if (c.has_input(5)) y[i] += c.in<T>(5)[i];
  }
  Activate<T>(c, ReadActivation(c.node()), c.output(0));
}

// dY, X, scale, saved mean, saved 1 / sqrt(variance + epsilon), bias, Y: the
// last where a residual was added, which goes with Relu only
void InferGrad(InferContext& c) {
  const FusedActivation activation = ReadActivation(c.node());
  InferBatchNormGrad(c);
  RequireFloat(c, 5);
  RequireShape(c, 5, c.input(2).shape);
  if (c.has_input(6)) {
    RequireSame(c, 0, 6);
    if (activation.kind != Kind::kRelu) {
      Fail(c.node(), ErrorCode::kNotImplemented,
           "Y tells nothing about the activation");
    }
  }
  if (c.has_output(3)) c.SetOutput(3, c.input(0).type, c.input(0).shape);
}

size_t GradScratch(const KernelRequest& request) {
  // double is the widest type.
  return static_cast<size_t>(request.inputs[0].info.shape.element_count()) *
         sizeof(double);
}

template <class T>
void RunGrad(const KernelContext& c) {
  const FusedActivation activation = ReadActivation(c.node());
  const Shape& shape = c.input(1).shape();
  const int64_t channels = shape.rank() > 1 ? shape[1] : 1;
  const int64_t inner =
      shape.element_count(std::min<size_t>(2, shape.rank()), shape.rank());
  const auto dy = c.in<T>(0), x = c.in<T>(1), scale = c.in<T>(2);
  const auto mean = c.in<T>(3), inverse = c.in<T>(4), bias = c.in<T>(5);
  const T low = static_cast<T>(activation.parameters[0]);
  const T high = static_cast<T>(activation.parameters[1]);
  const auto lets_through = [&](size_t i) {
    if (activation.kind == Kind::kNone) return true;
    if (c.has_input(6)) return c.in<T>(6)[i] > 0;
    const int64_t k = static_cast<int64_t>(i) / inner % channels;
    const T z = (x[i] - mean[k]) * (scale[k] * inverse[k]) + bias[k];
    return activation.kind == Kind::kRelu ? z > 0 : !(z < low || z > high);
  };
  T* dz =
      c.has_output(3) ? c.out<T>(3).data() : reinterpret_cast<T*>(c.scratch());
  for (size_t i = 0; i < dy.size(); ++i) dz[i] = lets_through(i) ? dy[i] : T{0};
  BatchNormGrad<T>(c, dz);
}

}  // namespace

// Outputs Y, running mean, running variance, saved mean, saved 1 / sqrt(
// variance + epsilon), as BatchNormInternal.
extern constexpr OpDef kInternalBatchNormActivation = {
    .name = "BatchNormActivation",
    .domain = kInternal,
    .inputs = {5, 6},
    .outputs = {1, 5},
    .infer = Infer,
    .reference =
        Instantiate<Floats>([]<class T>(const KernelContext& c) { Run<T>(c); }),
    .may_overwrite = {0, 5},
    .mixes_floats = true};

// Output Y of BatchNormActivation again, from the statistics that it saved.
extern constexpr OpDef kInternalBatchNormApply = {
    .name = "BatchNormApply",
    .domain = kInternal,
    .inputs = {5, 6},
    .infer = InferApply,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { RunApply<T>(c); }),
    .mixes_floats = true};

// Outputs dX, dscale, dbias, dresidual.
extern constexpr OpDef kInternalBatchNormActivationGrad = {
    .name = "BatchNormActivationGrad",
    .domain = kInternal,
    .inputs = {6, 7},
    .outputs = {0, 4},
    .infer = InferGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { RunGrad<T>(c); }, GradScratch),
    .may_overwrite = {0, 1},
    .mixes_floats = true};

}  // namespace strop::ops
