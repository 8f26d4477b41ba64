// SPDX-License-Identifier: Apache-2.0
#include "runtime/lower.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/throw.h"
#include "ops/registry.h"

namespace strop {
namespace {

std::string OpTitle(const Graph& graph, const Node& node) {
  const std::string domain = node.domain.empty() ? "ai.onnx" : node.domain;
  return fmt::format("{} (domain {}, opset {})", Describe(graph, node), domain,
                     graph.opset(node.domain));
}

void FindOps(LoweredGraph& lowered,
             std::span<const CustomOpDomain* const> custom_ops) {
  const Graph& graph = lowered.graph;
  std::set<std::string> unknown;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const size_t index = static_cast<size_t>(id.index);
    if (lowered.ops.size() <= index) lowered.ops.resize(index + 1, nullptr);
    const OpDef* op =
        FindOp(node.domain, node.op_type, graph.opset(node.domain), custom_ops);
    lowered.ops[index] = op;
    if (op == nullptr) {
      unknown.insert(OpTitle(graph, node));
      continue;
    }
    CheckArity(*op, OpNode(graph, node));
  }
  if (!unknown.empty()) {
    std::string list;
    for (const std::string& title : unknown) {
      list += (list.empty() ? "" : "; ") + title;
    }
    Throw(ErrorCode::kNotImplemented,
          "the graph \"{}\" uses ops that Strop does not have: {}", graph.name,
          list);
  }
}

void FindWriters(LoweredGraph& lowered) {
  const Graph& graph = lowered.graph;
  lowered.writes_inputs.assign(lowered.ops.size(), false);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef& op = *lowered.ops[static_cast<size_t>(id.index)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && op.mutates.contains(i)) {
        lowered.writes_inputs[static_cast<size_t>(id.index)] = true;
      }
    }
  }
}

// The order with writing nodes and their dependants moved to the end.
std::vector<NodeId> WritesLast(const LoweredGraph& lowered) {
  const Graph& graph = lowered.graph;
  std::vector<bool> late(graph.value_count(), false);
  std::vector<NodeId> first, last;
  for (NodeId id : lowered.order) {
    const Node& node = graph.node(id);
    bool is_late = lowered.writes_inputs[static_cast<size_t>(id.index)];
    for (ValueId input : node.inputs) {
      is_late = is_late || (input && late[static_cast<size_t>(input.index)]);
    }
    for (ValueId output : node.outputs) {
      if (output) late[static_cast<size_t>(output.index)] = is_late;
    }
    (is_late ? last : first).push_back(id);
  }
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

// Marks `node` and all that it depends on.
void MarkNeeded(const Graph& graph, NodeId node, std::vector<bool>& needed) {
  std::vector<NodeId> stack = {node};
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (!id || needed[static_cast<size_t>(id.index)]) continue;
    needed[static_cast<size_t>(id.index)] = true;
    for (ValueId input : graph.node(id).inputs) {
      if (input) stack.push_back(graph.value(input).producer);
    }
  }
}

bool IsCustom(const OpDef* op,
              std::span<const CustomOpDomain* const> custom_ops) {
  return std::ranges::any_of(custom_ops, [&](const CustomOpDomain* domain) {
    return std::ranges::find(domain->ops, op) != domain->ops.end();
  });
}

}  // namespace

LoweredGraph Lower(Graph graph,
                   std::span<const CustomOpDomain* const> custom_ops) {
  LoweredGraph lowered;
  lowered.graph = std::move(graph);
  lowered.graph.SortNodes();
  FindOps(lowered, custom_ops);
  FindWriters(lowered);

  std::vector<bool> needed(lowered.ops.size(), false);
  for (ValueId output : lowered.graph.outputs()) {
    MarkNeeded(lowered.graph, lowered.graph.value(output).producer, needed);
  }
  // Nobody knows when a user's kernel throws: before anything is written.
  for (NodeId id : lowered.graph.order()) {
    const auto index = static_cast<size_t>(id.index);
    if (!lowered.writes_inputs[index] &&
        IsCustom(lowered.ops[index], custom_ops)) {
      MarkNeeded(lowered.graph, id, needed);
    }
  }
  for (bool first : {true, false}) {
    for (NodeId id : lowered.graph.order()) {
      if (needed[static_cast<size_t>(id.index)] == first) {
        lowered.order.push_back(id);
      }
    }
  }
  lowered.order_writes_last = WritesLast(lowered);
  return lowered;
}

}  // namespace strop
