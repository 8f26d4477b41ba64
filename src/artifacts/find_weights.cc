// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "artifacts/training_graphs.h"
#include "artifacts/weights.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "passes/passes.h"

namespace strop {
namespace {

constexpr int64_t kOldestOpset = 6, kNewestOpset = 28;

// Values of Constant nodes as initializers, which may be trained.
void ConstantsToInitializers(Graph& graph) {
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.op_type != "Constant" || !node.domain.empty()) continue;
    const Attribute* value = node.FindAttribute("value");
    const auto* data = value ? std::get_if<TensorData>(&value->value) : nullptr;
    if (data == nullptr || DataTypeSize(data->type) == 0) continue;
    TensorData copy = *data;
    copy.name = graph.value_name(node.outputs[0]);
    copy.encoded = {};
    graph.RemoveNode(id);
    graph.AddInitializer(std::move(copy));
  }
}

// All elements are equal, bit for bit.
bool IsUniform(const TensorData& data) {
  const size_t size = DataTypeSize(data.type);
  for (size_t at = size; at < data.bytes.size(); ++at)
    if (data.bytes[at] != data.bytes[at - size]) return false;
  return true;
}

// Why the float is a number of a formula, such as the ones that an export of
// GroupNorm gives to InstanceNormalization; "" if it is none.
std::string NumberKind(const TensorData& data, bool from_constant,
                       bool is_weight) {
  const bool is_scalar = data.dims.empty();
  if (!is_scalar && !(from_constant && IsUniform(data))) return "";
  if (from_constant && !is_weight) return std::string(Weights::kInFormula);
  return is_scalar ? "a single number" : "one number throughout";
}

// What nodes read as exponents and scales.
std::map<ValueId, std::string> ReadAsNumbers(const Graph& graph) {
  std::map<ValueId, std::string> numbers;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op_type == "Pow")
      numbers[node.input(1)] = "an exponent";
    else if (node.op_type == "QuantizeLinear" ||
             node.op_type == "DequantizeLinear")
      numbers[node.input(1)] = "a scale of quantization";
  }
  return numbers;
}

// Cosines and sines by which positions turn queries and keys: a formula made
// them.
std::set<ValueId> TablesOfAngles(const Graph& graph) {
  std::set<ValueId> tables;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    size_t first = 0;
    if (node.op_type == "RotaryEmbedding")
      first = node.domain.empty() ? 1 : 2;
    else if (node.op_type == "GroupQueryAttention")
      first = 7;
    else
      continue;
    for (const size_t i : {first, first + 1}) tables.insert(node.input(i));
  }
  return tables;
}

// "the value of a Constant node, read through Identity, Transpose".
std::string Origin(const WeightRoles& roles, ValueId id,
                   std::string_view first) {
  std::string through;
  for (const std::string& op : roles.PathOf(id))
    through += (through.empty() ? "read through " : ", ") + op;
  if (first.empty()) return through;
  return std::string(first) + (through.empty() ? "" : ", " + through);
}

}  // namespace

Weights FindWeights(Graph& graph) {
  const int64_t opset = graph.opset(kOnnx);
  if (opset > 0 && (opset < kOldestOpset || opset > kNewestOpset)) {
    Throw(ErrorCode::kNotImplemented,
          "the model is of opset {}; models of opset {} to {} can be trained",
          opset, kOldestOpset, kNewestOpset);
  }
  std::set<ValueId> from_file(graph.initializers().begin(),
                              graph.initializers().end());
  ConstantsToInitializers(graph);
  UndeclareInitializers(graph);
  const std::map<ValueId, std::string> untied = UntieMerged(graph);
  for (const auto& [id, merged_with] : untied) from_file.insert(id);
  const std::set<ValueId> statistics = AllRunningStatistics(graph);
  const std::map<ValueId, std::string> read_as = ReadAsNumbers(graph);
  const std::set<ValueId> angles = TablesOfAngles(graph);
  const WeightRoles roles(graph);
  Weights weights;
  const auto first_of = [&](ValueId id) -> std::string {
    const auto merged = untied.find(id);
    if (merged != untied.end())
      return fmt::format("merged with \"{}\" in the file", merged->second);
    return from_file.contains(id) ? "" : "the value of a Constant node";
  };
  for (const ValueId id : graph.initializers()) {
    const bool from_constant = !from_file.contains(id);
    const TensorData& data = *graph.value(id).initializer;
    std::string number = NumberKind(data, from_constant, roles.IsWeight(id));
    if (number.empty() && read_as.contains(id)) number = read_as.at(id);
    if (!IsDifferentiable(graph, id)) {
      if (!roles.IsQuantizedWeight(id)) continue;
      weights.quantized.push_back(id);
    } else if (statistics.contains(id)) {
      weights.parameters.push_back(id);
    } else if (!number.empty()) {
      weights.numbers[id] = number;
    } else if (angles.contains(id) || (from_constant && !roles.IsWeight(id))) {
      weights.tables.push_back(id);
    } else {
      weights.parameters.push_back(id);
    }
    if (untied.contains(id)) weights.untied.push_back(id);
    std::string origin = Origin(roles, id, first_of(id));
    if (!origin.empty()) weights.origins[id] = std::move(origin);
  }
  return weights;
}

}  // namespace strop
