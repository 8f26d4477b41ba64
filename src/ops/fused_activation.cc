// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/activations.h"

namespace strop::ops {
namespace {

using Kind = FusedActivation::Kind;

struct Row {
  std::string_view name;
  Kind kind;
  size_t parameters;
  float defaults[3];
};

constexpr float kMost = std::numeric_limits<float>::max();

constexpr Row kRows[] = {
    {"", Kind::kNone, 0, {}},
    {"Relu", Kind::kRelu, 0, {}},
    {"LeakyRelu", Kind::kLeakyRelu, 1, {0.01f}},
    {"Elu", Kind::kElu, 1, {1}},
    {"Sigmoid", Kind::kSigmoid, 0, {}},
    {"Tanh", Kind::kTanh, 0, {}},
    {"Softplus", Kind::kSoftplus, 0, {}},
    {"Softsign", Kind::kSoftsign, 0, {}},
    {"ThresholdedRelu", Kind::kThresholdedRelu, 1, {1}},
    {"HardSigmoid", Kind::kHardSigmoid, 2, {0.2f, 0.5f}},
    {"Clip", Kind::kClip, 2, {-kMost, kMost}},
    // Alpha and gamma; there is no beta.
    {"Selu",
     Kind::kSelu,
     3,
     {1.67326319217681884765625f, 0, 1.05070102214813232421875f}},
};

const Row& FindRow(const OpNode& node) {
  const std::string_view name = node.String("activation", "");
  for (const Row& row : kRows) {
    if (row.name == name) return row;
  }
  Fail(node, ErrorCode::kNotImplemented, "attribute activation is \"{}\"",
       name);
}

// f(x), by the formulas of the ops that have these names.
template <class T>
T Apply(Kind kind, T x, T alpha, T beta, T gamma) {
  switch (kind) {
    case Kind::kNone:
      return x;
    case Kind::kRelu:
      return x < 0 ? T{0} : x;
    case Kind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case Kind::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case Kind::kSelu:
      return gamma * (x < 0 ? alpha * std::expm1(x) : x);
    case Kind::kSigmoid:
      return Logistic(x);
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kSoftplus:
      return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    case Kind::kSoftsign:
      return x / (1 + std::abs(x));
    case Kind::kThresholdedRelu:
      return x > alpha ? x : T{0};
    case Kind::kHardSigmoid:
      return std::clamp(alpha * x + beta, T{0}, T{1});
    case Kind::kClip:
      x = x < alpha ? alpha : x;
      return x > beta ? beta : x;
  }
  return x;
}

}  // namespace

FusedActivation ReadGemmActivation(const OpNode& node) {
  static constexpr std::string_view kNames[] = {
      "activation_alpha", "activation_beta", "activation_gamma"};
  const Row& row = FindRow(node);
  FusedActivation activation = {.kind = row.kind};
  for (size_t i = 0; i < 3; ++i) {
    activation.parameters[i] = node.Float(kNames[i], row.defaults[i]);
  }
  return activation;
}

FusedActivation ReadConvActivation(const OpNode& node) {
  const Row& row = FindRow(node);
  const std::span<const float> given = node.Floats("activation_params");
  if (given.size() != row.parameters) {
    Fail(node, "{} takes {} activation_params, not {}", row.name,
         row.parameters, given.size());
  }
  FusedActivation activation = {.kind = row.kind};
  std::copy(given.begin(), given.end(), activation.parameters);
  return activation;
}

template <class T>
void Activate(const KernelContext& c, const FusedActivation& activation,
              const Tensor& y) {
  if (activation.kind == Kind::kNone) return;
  const T alpha = static_cast<T>(activation.parameters[0]);
  const T beta = static_cast<T>(activation.parameters[1]);
  const T gamma = static_cast<T>(activation.parameters[2]);
  T* values = y.values<T>().data();
  c.ParallelFor(y.element_count(), 5, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      values[i] = Apply(activation.kind, values[i], alpha, beta, gamma);
    }
  });
}

Var ActivationNode(GraphBuilder& b, const FusedActivation& activation, Var x) {
  const auto* row = std::ranges::find(kRows, activation.kind, &Row::kind);
  const float* p = activation.parameters;
  switch (activation.kind) {
    case Kind::kNone:
      return x;
    case Kind::kClip:
      return b.Op("Clip",
                  {x, b.Scalar(p[0], b.type(x)), b.Scalar(p[1], b.type(x))});
    case Kind::kSelu:
      return b.Op("Selu", {x}, {{"alpha", p[0]}, {"gamma", p[2]}});
    case Kind::kHardSigmoid:
      return b.Op("HardSigmoid", {x}, {{"alpha", p[0]}, {"beta", p[1]}});
    case Kind::kLeakyRelu:
    case Kind::kElu:
    case Kind::kThresholdedRelu:
      return b.Op(row->name, {x}, {{"alpha", p[0]}});
    default:
      return b.Op(row->name, {x});
  }
}

template void Activate<float>(const KernelContext&, const FusedActivation&,
                              const Tensor&);
template void Activate<double>(const KernelContext&, const FusedActivation&,
                               const Tensor&);

}  // namespace strop::ops
