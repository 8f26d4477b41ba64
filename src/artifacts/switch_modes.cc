// SPDX-License-Identifier: Apache-2.0
#include "artifacts/switch_modes.h"

#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/graph_builder.h"

namespace strop {
namespace {

// Below, Dropout has no way to say that it is in training.
constexpr int64_t kDropoutWithMode = 12;

bool Is(const Node& node, std::string_view op_type) {
  return node.op_type == op_type && node.domain.empty();
}

// Statistics that nobody reads are no outputs any more: a node that does not
// train may have one output only.
void DropUnreadStatistics(Graph& graph, Node& node,
                          const std::vector<std::vector<NodeId>>& consumers) {
  while (node.outputs.size() > 1) {
    const ValueId last = node.outputs.back();
    if (last && (graph.value(last).is_output ||
                 !consumers[static_cast<size_t>(last.index)].empty()))
      return;
    if (last) graph.value(last).producer = {};
    node.outputs.pop_back();
  }
}

void SwitchDropout(Graph& graph, Node& node) {
  GraphBuilder builder(graph, "");
  const ValueId on = builder.Scalar(1, DataType::kBool).id;
  if (node.inputs.size() < 3) node.inputs.resize(3);
  node.inputs[2] = on;
}

void SwitchBatchNorm(Graph& graph, NodeId id) {
  Node& node = graph.node(id);
  node.SetAttribute("training_mode", int64_t{1});
  if (node.outputs.size() < 3) node.outputs.resize(3);
  for (size_t i = 1; i < 3; ++i) {
    if (node.outputs[i]) continue;
    const std::string name =
        fmt::format("{}_running_{}", graph.value_name(node.outputs[0]),
                    i == 1 ? "mean" : "var");
    const ValueId output = graph.AddValue(graph.FreshName(name));
    node.outputs[i] = output;
    graph.value(output).producer = id;
  }
}

// `where`: the nodes around, each " in [If "name"]".
void SwitchInside(Graph& body, const std::string& where, Lines& notes) {
  for (const NodeId id : body.order()) {
    Node& node = body.node(id);
    const std::string who = Describe(body, node);
    if (Is(node, "Dropout")) {
      if (node.input(2)) node.inputs.resize(2);
      notes.push_back(fmt::format(
          "{}{} drops nothing: it is inside a sub-graph", who, where));
    }
    if (Is(node, "BatchNormalization")) {
      const bool on_batch = OpNode(body, node).Int("training_mode", 0) != 0;
      notes.push_back(fmt::format(
          "{}{} {}: it is inside a sub-graph", who, where,
          on_batch ? "leaves its running statistics as they are"
                   : "normalizes by its running statistics in training too"));
    }
    RewriteSubgraphs(node, [&](Graph& inner) {
      SwitchInside(inner, fmt::format(" in {}{}", who, where), notes);
    });
  }
}

}  // namespace

void SwitchToEval(Graph& graph) {
  const auto consumers = graph.Consumers();
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    RewriteSubgraphs(node, SwitchToEval);
    if (Is(node, "Dropout") && node.input(2)) node.inputs.resize(2);
    if (!Is(node, "BatchNormalization")) continue;
    if (node.FindAttribute("training_mode") != nullptr)
      node.SetAttribute("training_mode", int64_t{0});
    DropUnreadStatistics(graph, node, consumers);
  }
}

Lines SwitchSubgraphs(Graph& graph) {
  Lines notes;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    const std::string where = " in " + Describe(graph, node);
    RewriteSubgraphs(node,
                     [&](Graph& body) { SwitchInside(body, where, notes); });
  }
  return notes;
}

Lines SwitchToTraining(Graph& graph, const std::set<ValueId>& trainable) {
  Lines notes = SwitchSubgraphs(graph);
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (Is(node, "Dropout")) {
      if (graph.opset(kOnnx) >= kDropoutWithMode) {
        SwitchDropout(graph, node);
      } else {
        notes.push_back(
            fmt::format("{} drops nothing: opset {} cannot say that it should, "
                        "opset 12 (--opset) can",
                        Describe(graph, node), graph.opset(kOnnx)));
      }
    }
    if (TrainsOnBatch(graph, node, trainable)) SwitchBatchNorm(graph, id);
  }
  return notes;
}

}  // namespace strop
