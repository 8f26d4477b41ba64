// SPDX-License-Identifier: Apache-2.0
//
// What keeps a session from loading or planning a graph, wherever it stands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/infer_shapes.h"
#include "strop/op.h"

namespace strop {

struct Fault {
  NodeId node;  // of the graph: where it is inside a sub-graph, its holder
  std::string text;
};

// Unknown ops, wrong numbers of inputs and outputs, missing sub-graphs, and
// what `inference`, that of the graph, says of attributes and shapes. Nodes
// that nothing needs count only where a session does not leave them out.
std::vector<Fault> FaultsOf(Graph graph, const InferenceReport& inference,
                            std::span<const CustomOpDomain* const> custom_ops);

// Throws kInvalidGraph naming all of them, if there are any.
void ThrowFaults(const std::vector<Fault>& faults);

}  // namespace strop
