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

std::vector<bool> FindWritten(const Graph& graph) {
  std::vector<bool> written(graph.value_count(), false);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op = OpOf(graph, node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && (op == nullptr || op->mutates.contains(i))) {
        written[static_cast<size_t>(node.inputs[i].index)] = true;
      }
    }
  }
  return written;
}

std::vector<size_t> PlacesInOrder(const Graph& graph) {
  std::vector<size_t> places(graph.node_count());
  for (size_t i = 0; i < graph.order().size(); ++i) {
    places[static_cast<size_t>(graph.order()[i].index)] = i;
  }
  return places;
}

bool HaveOneShape(const Graph& graph, ValueId a, ValueId b) {
  const auto& of_a = graph.value(a).type.dims;
  const auto& of_b = graph.value(b).type.dims;
  if (!of_a || !of_b || of_a->size() != of_b->size()) return false;
  for (size_t i = 0; i < of_a->size(); ++i) {
    const Dimension &m = (*of_a)[i], &n = (*of_b)[i];
    const bool same = m.value ? m.value == n.value
                              : !m.symbol.empty() && m.symbol == n.symbol;
    if (!same) return false;
  }
  return true;
}

bool IsIdentity(const Axes& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
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
