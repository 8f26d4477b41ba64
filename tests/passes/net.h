// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace strop {

// Builds the small graphs of these tests.
class Net {
 public:
  Net() {
    graph.opset_imports[""] = 14;
    graph.opset_imports["com.microsoft"] = 1;
  }

  ValueId Input(const char* name, std::vector<int64_t> dims = {},
                DataType type = DataType::kFloat32) {
    return graph.AddInput(name, ValueType::OfTensor(type, Sizes(dims)));
  }

  // -1: the symbol n.
  void SetDims(ValueId value, const std::vector<int64_t>& dims) {
    graph.value(value).type =
        ValueType::OfTensor(DataType::kFloat32, Sizes(dims));
  }

  ValueId Scalar(const char* name, float value) {
    const OwnedTensor tensor(DataType::kFloat32, {});
    tensor.view().values<float>()[0] = value;
    return graph.AddInitializer(TensorData::Copy(name, tensor.view()));
  }

  std::vector<ValueId> Op(const char* op, std::vector<ValueId> inputs,
                          std::vector<const char*> outputs,
                          std::vector<Attribute> attributes = {},
                          std::string_view domain = kOnnx) {
    Node node;
    node.op_type = op;
    node.domain = domain;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    for (const char* output : outputs) {
      node.outputs.push_back(output == nullptr ? ValueId{}
                                               : graph.AddValue(output));
    }
    const std::vector<ValueId> made = node.outputs;
    graph.AddNode(std::move(node));
    return made;
  }

  ValueId Microsoft(const char* op, std::vector<ValueId> inputs,
                    const char* output) {
    return Op(op, std::move(inputs), {output}, {}, kMicrosoft)[0];
  }

  // The op types that are left, in order.
  std::string Ops() const {
    std::string text;
    for (NodeId id : graph.order()) {
      text += (text.empty() ? "" : " ") + graph.node(id).op_type;
    }
    return text;
  }

  const Node& Only(std::string_view op) const {
    for (NodeId id : graph.order()) {
      if (graph.node(id).op_type == op) return graph.node(id);
    }
    throw std::runtime_error("no such node");
  }

  Graph graph;

 private:
  static std::vector<Dimension> Sizes(const std::vector<int64_t>& dims) {
    std::vector<Dimension> sizes;
    for (int64_t dim : dims) {
      Dimension& size = sizes.emplace_back();
      if (dim >= 0) {
        size.value = dim;
      } else {
        size.symbol = "n";
      }
    }
    return sizes;
  }
};

}  // namespace strop
