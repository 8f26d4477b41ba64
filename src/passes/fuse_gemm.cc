// SPDX-License-Identifier: Apache-2.0
//
// Gemm with a bias vector, and a Relu that is its only reader, become the
// internal Gemm:
//   y = Relu(alpha * A' B' + bias)
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

bool IsFloat(const Graph& graph, ValueId id) {
  return graph.value(id).type.element == DataType::kFloat32;
}

// The size of dimension `axis` of a rank-`rank` value, or -1.
int64_t DimOf(const Graph& graph, ValueId id, size_t rank, size_t axis) {
  const auto& dims = graph.value(id).type.dims;
  if (!dims || dims->size() != rank) return -1;
  return (*dims)[axis].value.value_or(-1);
}

template <class T>
T AttributeOr(const Node& node, std::string_view name, T fallback) {
  const Attribute* attribute = node.FindAttribute(name);
  if (attribute == nullptr) return fallback;
  const T* value = std::get_if<T>(&attribute->value);
  return value == nullptr ? fallback : *value;
}

// The internal Gemm takes a bias of one value a column, or none.
bool IsEligible(const Graph& graph, const Node& gemm) {
  if (gemm.op_type != "Gemm" || gemm.domain != kOnnx ||
      !IsFloat(graph, gemm.inputs[1])) {
    return false;
  }
  if (!gemm.input(2)) return true;
  const bool transposed = AttributeOr<int64_t>(gemm, "transB", 0) != 0;
  const int64_t n = DimOf(graph, gemm.inputs[1], 2, transposed ? 0 : 1);
  return n >= 0 && AttributeOr<float>(gemm, "beta", 1.0f) == 1.0f &&
         DimOf(graph, gemm.inputs[2], 1, 0) == n;
}

}  // namespace

void FuseGemm(Graph& graph) {
  const auto consumers = graph.Consumers();
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (NodeId id : order) {
    Node& gemm = graph.node(id);
    if (!IsEligible(graph, gemm)) continue;
    gemm.domain = kInternal;
    gemm.RemoveAttribute("beta");
    const ValueId sum = gemm.outputs[0];
    if (!HasOneUse(graph, consumers, sum)) continue;
    const NodeId reader = consumers[static_cast<size_t>(sum.index)][0];
    const Node& relu = graph.node(reader);
    if (relu.op_type != "Relu" || relu.domain != kOnnx) continue;
    const ValueId y = relu.outputs[0];
    graph.RemoveNode(reader);
    gemm.SetAttribute("activation", std::string("Relu"));
    gemm.outputs[0] = y;
    graph.value(sum).producer = {};
    graph.value(y).producer = id;
  }
}

}  // namespace strop
