// SPDX-License-Identifier: Apache-2.0
//
// The activation that ONNX Runtime's optimizer writes into a FusedGemm or
// FusedConv.
#pragma once

#include "ops/graph_builder.h"
#include "ops/op_util.h"

namespace strop::ops {

struct FusedActivation {
  enum class Kind {
    kNone,
    kRelu,
    kLeakyRelu,
    kElu,
    kSelu,
    kSigmoid,
    kTanh,
    kSoftplus,
    kSoftsign,
    kThresholdedRelu,
    kHardSigmoid,
    kClip,
  };
  Kind kind = Kind::kNone;
  // What the op of that name calls alpha, beta and gamma; min and max of Clip.
  float parameters[3] = {};
};

// From the attributes activation, activation_alpha, activation_beta and
// activation_gamma; a parameter that is absent is the op's default.
FusedActivation ReadGemmActivation(const OpNode& node);

// From the attributes activation and activation_params, the parameters in
// order, none of which may be left out.
FusedActivation ReadConvActivation(const OpNode& node);

// y = activation(y), for the float32 or float64 tensor y.
template <class T>
void Activate(const KernelContext& c, const FusedActivation& activation,
              const Tensor& y);

// The same as a node of the op of that name.
Var ActivationNode(GraphBuilder& b, const FusedActivation& activation, Var x);

}  // namespace strop::ops
