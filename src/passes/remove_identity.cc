// SPDX-License-Identifier: Apache-2.0
//
// y = Identity(x): readers of y read x. An Identity that makes a graph output
// stays, because outputs keep their names.
#include <vector>

#include "passes/passes.h"

namespace strop {

void RemoveIdentity(Graph& graph) {
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.op_type != "Identity" || node.domain != kOnnx) continue;
    const ValueId from = node.outputs[0], to = node.inputs[0];
    if (graph.value(from).is_output) continue;
    graph.ReplaceUses(from, to);
    graph.RemoveNode(id);
  }
}

}  // namespace strop
