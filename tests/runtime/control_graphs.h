// SPDX-License-Identifier: Apache-2.0
//
// Small graphs with sub-graphs, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace strop {

inline ValueType FloatsOf(std::optional<int64_t> size = std::nullopt) {
  return ValueType::OfTensor(
      DataType::kFloat32,
      std::vector<Dimension>{{.value = size, .symbol = ""}});
}
inline ValueType ScalarOf(DataType type) {
  return ValueType::OfTensor(type, std::vector<Dimension>{});
}

inline Graph NewGraph(const std::string& name) {
  Graph graph;
  graph.name = name;
  graph.opset_imports[""] = 21;
  return graph;
}

// A value of the graph around, inside a sub-graph.
inline ValueId Outer(Graph& graph, const std::string& name) {
  const ValueId id = graph.AddValue(name);
  graph.value(id).outer = true;
  return id;
}

inline Node MakeNode(const std::string& op, std::vector<ValueId> inputs,
                     std::vector<ValueId> outputs) {
  Node node;
  node.name = op;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

inline std::shared_ptr<const Graph> Share(Graph graph) {
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace strop
