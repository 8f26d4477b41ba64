// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "artifacts/weights.h"
#include "graph/subgraphs.h"
#include "strop/op.h"

namespace strop {
namespace {

// Inputs that are weights of an op.
struct Layer {
  std::string_view op_type;
  SlotSet weights;
};

constexpr Layer kLayers[] = {
    {"BatchNormalization", {1, 2}},
    {"CausalConvWithState", {1, 2}},
    {"Conv", {1, 2}},
    {"ConvTranspose", {1, 2}},
    {"DeformConv", {1, 3}},
    {"Einsum", {0, 1, 2, 3}},
    {"FusedConv", {1, 2}},
    {"FusedGemm", {0, 1, 2}},
    {"FusedMatMul", {0, 1}},
    {"GRU", {1, 2, 3}},
    {"Gemm", {0, 1, 2}},
    {"GroupNorm", {1, 2}},
    {"GroupNormalization", {1, 2}},
    {"InstanceNormalization", {1, 2}},
    {"LSTM", {1, 2, 3, 7}},
    {"LayerNormalization", {1, 2}},
    {"MatMul", {0, 1}},
    {"PRelu", {1}},
    {"RMSNormalization", {1}},
    {"RNN", {1, 2, 3}},
    {"SimplifiedLayerNormalization", {1}},
    {"SkipLayerNormalization", {2, 3, 4}},
    {"SkipSimplifiedLayerNormalization", {2, 3}},
};

constexpr Layer kDequantizers[] = {{"DequantizeLinear", {0}},
                                   {"MatMulNBits", {1}}};

// Ops of one float input that hand a weight on.
constexpr std::string_view kPassing[] = {
    "Cast",    "DequantizeLinear", "Flatten",   "Identity", "QuantizeLinear",
    "Reshape", "Squeeze",          "Transpose", "Unsqueeze"};

template <size_t n>
SlotSet WeightsOf(const Layer (&layers)[n], const Node& node) {
  for (const Layer& layer : layers)
    if (layer.op_type == node.op_type) return layer.weights;
  return {};
}

template <size_t n>
bool Reads(const Layer (&layers)[n], const Node& node, ValueId id) {
  const SlotSet weights = WeightsOf(layers, node);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == id && weights.contains(i)) return true;
  return false;
}

bool Passes(const Node& node, ValueId id) {
  return std::ranges::find(kPassing, node.op_type) != std::end(kPassing) &&
         node.input(0) == id;
}

// At the end of a chain of passing nodes is a constant.
bool IsConstant(const Graph& graph, ValueId id) {
  while (id && graph.value(id).producer) {
    const Node& producer = graph.node(graph.value(id).producer);
    if (!Passes(producer, producer.input(0))) return false;
    id = producer.input(0);
  }
  return id && graph.value(id).initializer;
}

// What a layer with a weight of its own gives: a product of two activations,
// to which a mask may be added, is none.
bool IsFromLayer(const Graph& graph, ValueId id) {
  if (!id || !graph.value(id).producer) return false;
  const Node& node = graph.node(graph.value(id).producer);
  const SlotSet weights = WeightsOf(kLayers, node);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (weights.contains(i) && IsConstant(graph, node.inputs[i])) return true;
  return false;
}

bool IsVector(const Graph& graph, ValueId id) {
  const auto& dims = graph.value(id).type.dims;
  return dims && std::ranges::count_if(*dims, [](const Dimension& d) {
                   return d.value != 1;
                 }) <= 1;
}

bool IsBias(const Graph& graph, const Node& node, ValueId id) {
  if (node.op_type != "Add" || !IsVector(graph, id)) return false;
  return IsFromLayer(graph, node.input(0)) || IsFromLayer(graph, node.input(1));
}

bool IsLayersWeight(const Graph& graph, const Node& node, ValueId id) {
  return Reads(kLayers, node, id) || IsBias(graph, node, id);
}

bool IsDequantized(const Graph&, const Node& node, ValueId id) {
  return Reads(kDequantizers, node, id);
}

}  // namespace

bool WeightRoles::IsWeight(ValueId id) const {
  return IsReadAs(IsLayersWeight, id);
}

bool WeightRoles::IsQuantizedWeight(ValueId id) const {
  return IsReadAs(IsDequantized, id);
}

bool WeightRoles::IsReadAs(Role role, ValueId start) const {
  // Chains of a file may be too long to recurse.
  std::vector<ValueId> waiting = {start};
  while (!waiting.empty()) {
    const ValueId id = waiting.back();
    waiting.pop_back();
    for (const NodeId reader : consumers_[static_cast<size_t>(id.index)]) {
      const Node& node = graph_.node(reader);
      if (role(graph_, node, id) || IsReadInside(role, node, id)) return true;
      if (Passes(node, id) && node.output(0)) waiting.push_back(node.output(0));
    }
  }
  return false;
}

bool WeightRoles::IsReadInside(Role role, const Node& node, ValueId id) const {
  bool found = false;
  ForEachSubgraph(node, [&](const Graph& body) {
    const ValueId captured = body.Find(graph_.value_name(id));
    if (captured && body.value(captured).outer && !found)
      found = WeightRoles(body).IsReadAs(role, captured);
  });
  return found;
}

std::vector<std::string> WeightRoles::PathOf(ValueId id) const {
  constexpr size_t kMost = 8;
  std::vector<std::string> path;
  while (path.size() < kMost) {
    const auto& readers = consumers_[static_cast<size_t>(id.index)];
    if (readers.size() != 1) return path;
    const Node& node = graph_.node(readers[0]);
    if (!Passes(node, id) || node.outputs.empty() || !node.outputs[0])
      return path;
    path.push_back(node.op_type);
    id = node.outputs[0];
  }
  path.push_back("...");
  return path;
}

}  // namespace strop
