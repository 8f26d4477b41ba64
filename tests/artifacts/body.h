// SPDX-License-Identifier: Apache-2.0
//
// Sub-graphs for models made in a test.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/op_runner.h"

namespace strop {

// A sub-graph.
class Body {
 public:
  using Ints = std::vector<int64_t>;
  using GraphPtr = std::shared_ptr<const Graph>;

  explicit Body(int64_t opset) { graph_.opset_imports[""] = opset; }

  void Input(const std::string& name, DataType type, Ints dims) {
    std::vector<Dimension> sizes;
    for (const int64_t d : dims) sizes.push_back({.value = d, .symbol = {}});
    graph_.AddInput(name, ValueType::OfTensor(type, std::move(sizes)));
  }
  void Capture(const std::string& name) {
    graph_.value(graph_.AddValue(name)).outer = true;
  }
  void Op(const std::string& op, const std::vector<std::string>& inputs,
          const std::string& output) {
    Node node;
    node.op_type = op;
    node.name = output;
    for (const std::string& input : inputs)
      node.inputs.push_back(graph_.Find(input));
    node.outputs = {graph_.AddValue(output)};
    graph_.AddNode(std::move(node));
  }
  // An If.
  void Branches(const std::string& condition, GraphPtr then_branch,
                GraphPtr else_branch, const std::string& output) {
    Node node;
    node.op_type = "If";
    node.name = output;
    node.inputs = {graph_.Find(condition)};
    node.SetAttribute("then_branch", std::move(then_branch));
    node.SetAttribute("else_branch", std::move(else_branch));
    node.outputs = {graph_.AddValue(output)};
    graph_.AddNode(std::move(node));
  }
  void Output(const std::string& name, Ints dims = {}) {
    const ValueId id = graph_.Find(name);
    graph_.MarkOutput(id);
    if (dims.empty()) return;
    std::vector<Dimension> sizes;
    for (const int64_t d : dims) sizes.push_back({.value = d, .symbol = {}});
    graph_.value(id).type =
        ValueType::OfTensor(DataType::kFloat64, std::move(sizes));
  }

  void Constant(const std::string& name, Ints dims, const Numbers64& values,
                DataType type = DataType::kFloat64) {
    const OwnedTensor tensor(type, Shape(dims));
    FromNumbers(values, tensor.view());
    graph_.AddInitializer(TensorData::Copy(name, tensor.view()));
  }

  GraphPtr Get() { return std::make_shared<const Graph>(std::move(graph_)); }

 private:
  Graph graph_;
};

}  // namespace strop
