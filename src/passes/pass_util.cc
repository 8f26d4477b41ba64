// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "ops/registry.h"
#include "passes/passes.h"

namespace strop {

const Node* ProducerOf(const Graph& graph, ValueId value,
                       std::string_view domain, std::string_view op_type) {
  if (!value) return nullptr;
  const NodeId id = graph.value(value).producer;
  if (!id) return nullptr;
  const Node& node = graph.node(id);
  return node.domain == domain && node.op_type == op_type ? &node : nullptr;
}

const OpDef* OpOf(const Graph& graph, const Node& node) {
  return FindOp(node.domain, node.op_type, graph.opset(node.domain));
}

void ReplaceNode(Graph& graph, size_t position, NodeId id, Node node) {
  node.name = graph.node(id).name;
  node.outputs = graph.node(id).outputs;
  graph.RemoveNode(id);
  graph.InsertNode(position, std::move(node));
}

bool HasOneUse(const Graph& graph,
               const std::vector<std::vector<NodeId>>& consumers,
               ValueId value) {
  return !graph.value(value).is_output &&
         consumers[static_cast<size_t>(value.index)].size() == 1;
}

}  // namespace strop
