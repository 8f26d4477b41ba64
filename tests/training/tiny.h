// SPDX-License-Identifier: Apache-2.0
//
// The smallest model that trains, whose numbers are whole:
//   y = x * w + b        x: float32[batch, 2], w trainable, b frozen
//   loss = sum(y),       dloss/dw = column sums of x
// Tests change its graphs to see what is refused.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/parameter_store.h"
#include "graph/graph.h"
#include "strop/strop.h"

namespace strop::tiny {

Model TrainModel();
Model EvalModel();
// `op_type` is AdamWOptimizer or SGDOptimizerV2.
Model OptimizerModel(const std::string& op_type);

// Encoded models, and how Module and Optimizer take them.
struct Models {
  std::string train, eval = {}, optimizer = {};
  ModelIdentifiers identifiers() const;

  static Models Default(const std::string& op_type = "AdamWOptimizer");
};

// w = {1, -2}, b = {0.5, 0.25}.
CheckpointState State(const Environment& environment);
// Adds a float32 parameter.
void AddParameter(CheckpointState& state, const std::string& name,
                  bool requires_grad, std::vector<float> values);

OwnedTensor FloatTensor(const Shape& shape,
                        std::initializer_list<float> values);
std::vector<float> Values(const Tensor& tensor);

// The code and text of the Error that `call` throws.
struct Thrown {
  std::optional<ErrorCode> code;
  std::string text;
};
Thrown ErrorOf(const std::function<void()>& call);

// Everything a test of a training session needs.
class Session {
 public:
  explicit Session(const Models& models = Models::Default(),
                   const SessionOptions& options = {},
                   std::span<const CustomOpDomain* const> custom_ops = {})
      : state(State(environment)),
        module(models.identifiers(), &state, options, environment, {},
               custom_ops) {}

  // One step with x = {{x0, x1}}; returns the loss.
  float Step(float x0, float x1);
  std::vector<float> w() const { return Values(state.ParameterValue("w")); }
  std::vector<float> gradient() const { return Values(*state.Gradient("w")); }

  Environment environment{{.num_threads = 1, .log = {}, .files = {}}};
  CheckpointState state;
  Module module;
};

}  // namespace strop::tiny
