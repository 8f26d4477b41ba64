// SPDX-License-Identifier: Apache-2.0
//
// ReluGrad(dy, x) = ReluGrad(dy, y) for y = Relu(x), since x > 0 exactly
// where y > 0. Reading y lets x die early and lets Relu join its producer.
#include <vector>

#include "passes/passes.h"

namespace strop {

void UseReluOutput(Graph& graph) {
  const auto consumers = graph.Consumers();
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op_type != "ReluGrad" || node.domain != kMicrosoft) continue;
    const ValueId x = node.inputs[1];
    for (NodeId reader : consumers[static_cast<size_t>(x.index)]) {
      const Node& relu = graph.node(reader);
      if (relu.op_type == "Relu" && relu.domain == kOnnx) {
        node.inputs[1] = relu.outputs[0];
        break;
      }
    }
  }
}

}  // namespace strop
