// SPDX-License-Identifier: Apache-2.0
//
// A BatchNormalization in training form computes new running statistics.
// Where the old ones are graph inputs (frozen parameters of the checkpoint),
// the new ones are written back by Assign nodes at the end of the graph,
// behind everything that can fail on data. Statistics that are constants of
// the graph stay as they are, as in ONNX Runtime.
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

bool IsTrainingForm(const Node& node) {
  if (node.op_type == "BatchNormInternal" && node.domain == kMicrosoft) {
    return true;
  }
  return node.op_type == "BatchNormalization" && node.domain == kOnnx &&
         node.output(1);
}

void Assign(Graph& graph, const Node& from, ValueId target, ValueId value) {
  if (!target || !value || !graph.value(target).is_input) return;
  Node node;
  node.name = from.name;
  node.op_type = "Assign";
  node.domain = kInternal;
  node.inputs = {target, value};
  graph.AddNode(std::move(node));
}

}  // namespace

void WriteBatchNormStatistics(Graph& graph) {
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (NodeId id : order) {
    const Node node = graph.node(id);
    if (!IsTrainingForm(node)) continue;
    Assign(graph, node, node.input(3), node.output(1));
    Assign(graph, node, node.input(4), node.output(2));
  }
}

}  // namespace strop
