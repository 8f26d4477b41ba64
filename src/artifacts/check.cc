// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "artifacts/faults.h"
#include "artifacts/notes.h"
#include "artifacts/switch_modes.h"
#include "artifacts/training_graphs.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "ops/infer_shapes.h"

namespace strop {
namespace {

std::string DescribeValue(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.type.kind != ValueType::Kind::kTensor)
    return value.name + " (no tensor)";
  return value.name + " " + DescribeType(value.type);
}

std::vector<ValueId> FloatOutputs(const Graph& graph) {
  std::vector<ValueId> outputs;
  for (const ValueId id : graph.outputs())
    if (IsDifferentiable(graph, id)) outputs.push_back(id);
  return outputs;
}

// The last values before the outputs, each of a float type, that depend on a
// candidate: what an ArgMax reads.
std::vector<ValueId> FloatsBeforeOutputs(
    const Graph& graph, const std::vector<ValueId>& candidates,
    std::span<const CustomOpDomain* const> custom_ops) {
  std::vector<ValueId> computed, found;
  for (const NodeId id : graph.order())
    for (const ValueId output : graph.node(id).outputs)
      if (output && IsDifferentiable(graph, output)) computed.push_back(output);
  const Reach reach(graph, computed, candidates, custom_ops);
  std::vector<ValueId> waiting(graph.outputs().begin(), graph.outputs().end());
  std::set<ValueId> seen;
  while (!waiting.empty()) {
    const ValueId id = waiting.back();
    waiting.pop_back();
    if (!seen.insert(id).second || !graph.value(id).producer) continue;
    if (reach.Reaches(id)) {
      found.push_back(id);
    } else {
      const auto reads = graph.Reads(graph.node(graph.value(id).producer));
      waiting.insert(waiting.end(), reads.begin(), reads.end());
    }
  }
  return found;
}

// What a loss can stand on: the float outputs. Where none of them depends on a
// parameter, what comes before the outputs; the report tells of it.
std::vector<ValueId> LossInputs(
    const Graph& graph, const std::vector<ValueId>& candidates,
    std::span<const CustomOpDomain* const> custom_ops,
    TrainabilityReport& report) {
  const std::vector<ValueId> outputs = FloatOutputs(graph);
  const Reach reach(graph, outputs, candidates, custom_ops);
  const auto reaches = [&](ValueId id) { return reach.Reaches(id); };
  if (std::ranges::any_of(outputs, reaches)) return outputs;
  const std::vector<ValueId> before =
      FloatsBeforeOutputs(graph, candidates, custom_ops);
  if (before.empty()) return outputs;
  for (const ValueId id : before)
    report.outputs.push_back(DescribeValue(graph, id) +
                             ", no output itself: the outputs have no "
                             "gradient, a loss can be named on this");
  return before;
}

// What only shows when the gradients are written.
void TryGradients(Graph graph, const std::vector<ValueId>& outputs,
                  const std::vector<ValueId>& parameters,
                  std::span<const CustomOpDomain* const> custom_ops,
                  TrainabilityReport& report) {
  std::vector<ValueId> seeds;
  for (const ValueId id : outputs) {
    ValueType type = graph.value(id).type;
    type.encoded.clear();
    seeds.push_back(graph.AddInput(graph.FreshName("seed"), std::move(type)));
  }
  try {
    const std::vector<ValueId> gradients = Differentiate(
        graph, outputs, seeds, parameters, {.custom = custom_ops});
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i])
        report.blockers.push_back(fmt::format("no gradient arrives at \"{}\"",
                                              graph.value_name(parameters[i])));
  } catch (const Error& error) {
    report.blockers.push_back(error.what());
    return;
  }
  report.strop_only = StropOpNotes(graph);
  const Lines newer = NewerOpNotes(graph);
  report.strop_only.insert(report.strop_only.end(), newer.begin(), newer.end());
}

// What is there, whatever trains.
TrainabilityReport DescribeModel(const Model& model) {
  const Graph& graph = model.graph;
  TrainabilityReport report;
  report.opset = graph.opset(kOnnx);
  report.ir_version = model.ir_version;
  report.node_count = graph.order().size();
  for (const ValueId id : graph.inputs())
    if (!graph.value(id).initializer)
      report.inputs.push_back(DescribeValue(graph, id));
  for (const ValueId id : graph.outputs())
    report.outputs.push_back(DescribeValue(graph, id));
  return report;
}

Lines Untrained(const Graph& graph, const Weights& weights) {
  Lines lines = UntrainedWeights(graph, weights);
  for (const std::string& constant : ConstantsInside(graph))
    lines.push_back(constant + ": inside a sub-graph");
  return lines;
}

// Blockers on the way of gradients, then faults anywhere; nodes that have one
// of either are not told of twice, nor among the unknown shapes.
void AddBlockers(const std::vector<Blocker>& blockers,
                 const std::vector<Fault>& faults, TrainabilityReport& report) {
  std::set<NodeId> told;
  for (const Blocker& blocker : blockers) {
    report.blockers.push_back(blocker.reason);
    told.insert(blocker.node);
  }
  for (const Fault& fault : faults) {
    std::erase(report.notes, fault.text);
    if (!told.contains(fault.node)) report.blockers.push_back(fault.text);
  }
}

}  // namespace

TrainabilityReport CheckTrainabilityOf(
    Model model, std::span<const CustomOpDomain* const> custom_ops) {
  Graph& graph = model.graph;
  const Weights weights = FindWeights(graph);
  const Lines inside = SwitchSubgraphs(graph);
  const InferenceReport inference = InferShapes(graph, custom_ops);
  TrainabilityReport report = DescribeModel(model);
  report.notes = inference.errors;
  report.untrained = Untrained(graph, weights);
  report.untrained.insert(report.untrained.end(), inside.begin(), inside.end());

  const std::set<ValueId> statistics = AllRunningStatistics(graph);
  std::vector<ValueId> candidates, reaching;
  for (const ValueId id : weights.parameters)
    if (!statistics.contains(id)) candidates.push_back(id);
  const std::vector<ValueId> outputs =
      LossInputs(graph, candidates, custom_ops, report);
  const Reach reach(graph, outputs, candidates, custom_ops);
  for (const ValueId id : weights.parameters) {
    const TensorData& data = *graph.value(id).initializer;
    ParameterReport parameter = {.name = data.name,
                                 .type = data.type,
                                 .dims = data.dims,
                                 .origin = weights.OriginOf(id)};
    parameter.trains = reach.Reaches(id);
    if (statistics.contains(id)) {
      parameter.why_not = "running statistics";
    } else if (!parameter.trains) {
      parameter.why_not = "no float output depends on it";
    } else {
      reaching.push_back(id);
      parameter.why_not = WhyNoOptimizer(data.type);
      parameter.trains = parameter.why_not.empty();
    }
    report.parameters.push_back(std::move(parameter));
  }
  AddBlockers(reach.Blockers(), FaultsOf(graph, inference, custom_ops), report);
  if (report.blockers.empty() && !reaching.empty())
    TryGradients(graph, outputs, reaching, custom_ops, report);
  return report;
}

}  // namespace strop
