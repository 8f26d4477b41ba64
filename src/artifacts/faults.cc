// SPDX-License-Identifier: Apache-2.0
#include "artifacts/faults.h"

#include <algorithm>
#include <set>

#include "autodiff/control_flow.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace strop {
namespace {

using CustomOps = std::span<const CustomOpDomain* const>;

// As Lower wants them.
std::string MissingBody(const Graph& graph, const Node& node) {
  const auto bodies = BodiesOf(node);
  const size_t wanted = node.op_type == "If" ? 2 : 1;
  if (bodies.size() == wanted) return "";
  return Describe(graph, node) + " lacks a sub-graph";
}

std::string DefinitionFault(const Graph& graph, NodeId id, CustomOps custom) {
  const Node& node = graph.node(id);
  const OpDef* op =
      FindOp(node.domain, node.op_type, graph.opset(node.domain), custom);
  if (op == nullptr) {
    return fmt::format("{} is an unknown op (domain {}, opset {})",
                       Describe(graph, node),
                       node.domain.empty() ? "ai.onnx" : node.domain,
                       graph.opset(node.domain));
  }
  try {
    CheckArity(*op, OpNode(graph, node));
  } catch (const Error& error) {
    return error.what();
  }
  return IsControlFlow(graph, id) ? MissingBody(graph, node) : "";
}

void AddFaults(const Graph& graph, const std::string& where, NodeId holder,
               CustomOps custom, std::vector<Fault>& faults) {
  for (const NodeId id : graph.order()) {
    const NodeId at = holder ? holder : id;
    std::string text = DefinitionFault(graph, id, custom);
    if (!text.empty()) faults.push_back({at, text + where});
    const Node& node = graph.node(id);
    ForEachSubgraph(node, [&](const Graph& body) {
      AddFaults(body, fmt::format(", in {}{}", Describe(graph, node), where),
                at, custom, faults);
    });
  }
}

}  // namespace

std::vector<Fault> FaultsOf(Graph graph, const InferenceReport& inference,
                            CustomOps custom_ops) {
  RemoveDead(graph);
  std::vector<Fault> faults;
  AddFaults(graph, "", {}, custom_ops, faults);
  std::set<NodeId> told;
  for (const Fault& fault : faults) told.insert(fault.node);
  for (const auto& [node, text] : inference.faults)
    if (!graph.node(node).removed && !told.contains(node))
      faults.push_back({node, text});
  return faults;
}

void ThrowFaults(const std::vector<Fault>& faults) {
  constexpr size_t kMost = 20;
  if (faults.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, faults.size()); ++i)
    text += (i == 0 ? "" : "; ") + faults[i].text;
  if (faults.size() > kMost)
    text += fmt::format("; and {} more nodes", faults.size() - kMost);
  Throw(ErrorCode::kInvalidGraph, "the model cannot be run: {}", text);
}

}  // namespace strop
