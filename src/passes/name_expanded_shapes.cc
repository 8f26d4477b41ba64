// SPDX-License-Identifier: Apache-2.0
//
// Expand to Shape(x), as the gradients of means and pools have it, becomes
// ExpandLike, which knows x.
#include "passes/passes.h"
#include "strop/op.h"

namespace strop {

void NameExpandedShapes(Graph& graph) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op_type != "Expand" || node.domain != kOnnx) continue;
    const Node* shape = ProducerOf(graph, node.input(1), kOnnx, "Shape");
    if (shape == nullptr || OpNode(graph, *shape).Int("start", 0) != 0 ||
        OpNode(graph, *shape).Has("end")) {
      continue;
    }
    node.op_type = "ExpandLike";
    node.domain = kInternal;
    node.inputs[1] = shape->inputs[0];
  }
}

}  // namespace strop
