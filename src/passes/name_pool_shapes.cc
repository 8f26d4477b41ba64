// SPDX-License-Identifier: Apache-2.0
//
// MaxPoolGrad and AveragePoolGrad of ONNX Runtime's training graphs do not
// say which shape their result has. Their internal twins have the pool's
// input as one more input, of which the shape is read; so has Strop's own
// AveragePoolGrad in files.
#include <string_view>
#include <vector>

#include "passes/passes.h"
#include "strop/op.h"

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

// What a value is reshaped from; invalid if it is no Reshape.
ValueId Unreshaped(const Graph& graph, ValueId value) {
  const Node* reshape = ProducerOf(graph, value, kOnnx, "Reshape");
  return reshape == nullptr ? ValueId{} : reshape->input(0);
}

// Where the pool's shape is open, its gradient is in files a GatherGrad by the
// indices of all maxima, reshaped (ops/nn/pool.cc). Makes `node`, the last
// Reshape, the internal MaxPoolGrad.
void NameGatheredMaxPool(const Graph& graph, Node& node) {
  if (node.op_type != "Reshape" || node.domain != kOnnx) return;
  const Node* gather =
      ProducerOf(graph, node.input(0), kMicrosoft, "GatherGrad");
  if (gather == nullptr) return;
  const ValueId indices = Unreshaped(graph, gather->input(1));
  const ValueId dy = Unreshaped(graph, gather->input(2));
  const Node* pool = ProducerOf(graph, indices, kOnnx, "MaxPool");
  const Node* shape = ProducerOf(graph, node.input(1), kOnnx, "Shape");
  if (!dy || pool == nullptr || pool->output(1) != indices ||
      shape == nullptr || shape->input(0) != pool->input(0) ||
      OpNode(graph, *pool).Int("storage_order", 0) != 0) {
    return;
  }
  node.op_type = "MaxPoolGrad";
  node.domain = kInternal;
  node.inputs = {dy, indices, pool->input(0)};
  node.attributes = pool->attributes;
}

}  // namespace

void NamePoolShapes(Graph& graph) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.domain == kStrop && node.op_type == "AveragePoolGrad")
      node.domain = kInternal;
    NameGatheredMaxPool(graph, node);
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
