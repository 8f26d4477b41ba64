// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "artifacts/training_graphs.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "ops/infer_shapes.h"

namespace strop {
namespace {

std::string DescribeValue(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  std::string text = value.name;
  if (value.type.kind != ValueType::Kind::kTensor) return text + " (no tensor)";
  text += " " + DataTypeName(value.type.element);
  if (!value.type.dims) return text + " of unknown rank";
  text += " [";
  for (size_t i = 0; i < value.type.dims->size(); ++i) {
    const Dimension& dimension = (*value.type.dims)[i];
    if (i > 0) text += ", ";
    if (dimension.value) {
      text += fmt::format("{}", *dimension.value);
    } else if (dimension.symbol.empty() || IsDerivedSymbol(dimension.symbol)) {
      text += "?";
    } else {
      text += dimension.symbol;
    }
  }
  return text + "]";
}

std::vector<ValueId> FloatOutputs(const Graph& graph) {
  std::vector<ValueId> outputs;
  for (const ValueId id : graph.outputs())
    if (IsDifferentiable(graph, id)) outputs.push_back(id);
  return outputs;
}

// What only shows when the gradients are written.
std::vector<std::string> TryGradients(
    Graph graph, const std::vector<ValueId>& outputs,
    const std::vector<ValueId>& parameters,
    std::span<const CustomOpDomain* const> custom_ops) {
  std::vector<ValueId> seeds;
  for (const ValueId id : outputs) {
    ValueType type = graph.value(id).type;
    type.encoded.clear();
    seeds.push_back(graph.AddInput(graph.FreshName("seed"), std::move(type)));
  }
  try {
    Differentiate(graph, outputs, seeds, parameters, {.custom = custom_ops});
    return {};
  } catch (const Error& error) {
    return {error.what()};
  }
}

}  // namespace

TrainabilityReport CheckTrainabilityOf(
    Model model, std::span<const CustomOpDomain* const> custom_ops) {
  Graph& graph = model.graph;
  const std::vector<ValueId> parameters = FindParameters(graph);
  TrainabilityReport report;
  report.notes = InferShapes(graph, custom_ops).errors;
  report.opset = graph.opset(kOnnx);
  report.ir_version = model.ir_version;
  report.node_count = graph.order().size();
  for (const ValueId id : graph.inputs())
    if (!graph.value(id).initializer)
      report.inputs.push_back(DescribeValue(graph, id));
  for (const ValueId id : graph.outputs())
    report.outputs.push_back(DescribeValue(graph, id));

  const std::vector<ValueId> outputs = FloatOutputs(graph);
  const Reach reach(graph, outputs, parameters, custom_ops);
  std::vector<ValueId> reaching;
  for (const ValueId id : parameters) {
    const TensorData& data = *graph.value(id).initializer;
    ParameterReport parameter = {
        .name = data.name, .type = data.type, .dims = data.dims};
    parameter.trains = reach.Reaches(id);
    if (parameter.trains) {
      reaching.push_back(id);
    } else {
      parameter.why_not = "no float output depends on it";
    }
    report.parameters.push_back(std::move(parameter));
  }
  for (const Blocker& blocker : reach.Blockers())
    report.blockers.push_back(blocker.reason);
  if (report.blockers.empty() && !reaching.empty())
    report.blockers = TryGradients(graph, outputs, reaching, custom_ops);
  return report;
}

}  // namespace strop
