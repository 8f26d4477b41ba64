// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace strop {

// What the state keeps for a kind of optimizer node, and what its graph takes.
struct OptimizerAlgorithm {
  std::string_view op_type;  // in the domain com.microsoft
  // Names of a parameter's moments in a checkpoint, and of the graph inputs
  // they are bound to.
  std::span<const std::string_view> moments;
  std::span<const std::string_view> moment_inputs;
};

// Inputs of every optimizer graph, in this order; the moments follow.
inline constexpr std::string_view kOptimizerInputs[] = {"learning_rate", "step",
                                                        "params", "gradients"};

// The algorithm of the one optimizer node of the graph. Throws kInvalidGraph
// if there is none or more than one, or if the graph's inputs are others.
const OptimizerAlgorithm& FindOptimizerAlgorithm(const Graph& graph);

}  // namespace strop
