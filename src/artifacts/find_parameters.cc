// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "artifacts/training_graphs.h"
#include "autodiff/reach.h"
#include "base/throw.h"

namespace strop {
namespace {

constexpr int64_t kOldestOpset = 6;

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

// Initializers that are declared as inputs too (IR 3) have their value alone.
void UndeclareInitializers(Graph& graph) {
  std::vector<ValueId> inputs;
  for (const ValueId id : graph.inputs())
    if (!graph.value(id).initializer) inputs.push_back(id);
  graph.SetInputs(std::move(inputs));
}

// Numbers that a formula needs: exponents, and single elements of Constant
// nodes.
std::set<ValueId> Coefficients(const Graph& graph,
                               const std::set<ValueId>& from_file) {
  std::set<ValueId> coefficients;
  for (const ValueId id : graph.initializers()) {
    const auto& dims = graph.value(id).initializer->dims;
    const bool single =
        std::ranges::all_of(dims, [](int64_t d) { return d == 1; });
    if (dims.empty() || (single && !from_file.contains(id)))
      coefficients.insert(id);
  }
  for (const NodeId id : graph.order())
    if (graph.node(id).op_type == "Pow" && graph.node(id).input(1))
      coefficients.insert(graph.node(id).input(1));
  return coefficients;
}

}  // namespace

std::vector<ValueId> FindParameters(Graph& graph) {
  const int64_t opset = graph.opset(kOnnx);
  if (opset > 0 && opset < kOldestOpset) {
    Throw(ErrorCode::kNotImplemented,
          "the model is of opset {}; models of opset {} and newer are read",
          opset, kOldestOpset);
  }
  const std::set<ValueId> from_file(graph.initializers().begin(),
                                    graph.initializers().end());
  ConstantsToInitializers(graph);
  UndeclareInitializers(graph);
  const std::set<ValueId> coefficients = Coefficients(graph, from_file);
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.initializers())
    if (IsDifferentiable(graph, id) && !coefficients.contains(id))
      parameters.push_back(id);
  return parameters;
}

}  // namespace strop
