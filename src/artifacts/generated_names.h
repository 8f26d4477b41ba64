// SPDX-License-Identifier: Apache-2.0
//
// Training adds names that the runtimes know things by: a base model may have
// them already.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace strop {

inline constexpr std::string_view kResetFlag = "lazy_reset_grad";
std::string AccumulationBufferOf(const std::string& parameter);
std::string AccumulatedOf(const std::string& parameter);

// Makes the names free that the gradients of `trained` need. Throws
// kInvalidArgument where they are names of inputs, outputs and the like, which
// users know.
void FreeGradientNames(Graph& graph, const std::vector<ValueId>& trained);

// Gives nodes that are called like an earlier one other names: ONNX Runtime
// refuses graphs with two of a name.
void TellNodesApart(Graph& graph);

}  // namespace strop
