// SPDX-License-Identifier: Apache-2.0
//
// Runs a whole graph op by op with the reference kernels, without any plan:
// slow, and simple enough to be trusted.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "strop/tensor.h"

namespace strop {

using NamedTensors = std::map<std::string, OwnedTensor>;

// The graph's outputs by name. Inputs that an op changes in place are
// changed in `inputs`. Throws kNotImplemented for an op that is not known.
NamedTensors RunGraph(const Graph& graph, NamedTensors& inputs);

}  // namespace strop
