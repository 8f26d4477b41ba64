// SPDX-License-Identifier: Apache-2.0
//
// MaxPoolGrad and AveragePoolGrad of ONNX Runtime's training graphs do not
// say which shape their result has. Their internal twins have the pool's
// input as one more input, of which the shape is read; so has Strop's own
// AveragePoolGrad in files.
#include <string_view>
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

constexpr std::string_view kGradSuffix = "_grad";

// The input of the AveragePool whose gradient `node` computes: the value
// that the result is named after, as ONNX Runtime names gradients.
ValueId AveragePoolInput(const Graph& graph, const Node& node) {
  std::string_view name = graph.value_name(node.outputs[0]);
  const size_t at = name.rfind(kGradSuffix);
  if (at == std::string_view::npos) return {};
  const ValueId x = graph.Find(name.substr(0, at));
  if (!x) return {};
  for (NodeId id : graph.order()) {
    const Node& pool = graph.node(id);
    if (pool.op_type == "AveragePool" && pool.domain == kOnnx &&
        pool.inputs[0] == x) {
      return x;
    }
  }
  return {};
}

ValueId MaxPoolInput(const Graph& graph, const Node& node) {
  const Node* pool = ProducerOf(graph, node.input(1), kOnnx, "MaxPool");
  return pool == nullptr ? ValueId{} : pool->inputs[0];
}

}  // namespace

void NamePoolShapes(Graph& graph) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.domain == kStrop && node.op_type == "AveragePoolGrad")
      node.domain = kInternal;
    if (node.domain != kOnnx) continue;
    ValueId x;
    if (node.op_type == "MaxPoolGrad") x = MaxPoolInput(graph, node);
    if (node.op_type == "AveragePoolGrad") x = AveragePoolInput(graph, node);
    if (!x) continue;
    node.domain = kInternal;
    node.inputs.push_back(x);
  }
}

}  // namespace strop
