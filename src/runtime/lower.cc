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
    for (ValueId read : graph.Reads(node)) {
      is_late = is_late || late[static_cast<size_t>(read.index)];
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
    for (ValueId read : graph.Reads(graph.node(id))) {
      stack.push_back(graph.value(read).producer);
    }
  }
}

bool IsCustom(const OpDef* op,
              std::span<const CustomOpDomain* const> custom_ops) {
  return std::ranges::any_of(custom_ops, [&](const CustomOpDomain* domain) {
    return std::ranges::find(domain->ops, op) != domain->ops.end();
  });
}

// The sub-graph with what it reads of `around` as further inputs.
LoweredBody LowerBody(const Graph& around, const Graph& subgraph,
                      std::string attribute,
                      std::span<const CustomOpDomain* const> custom_ops) {
  LoweredBody body;
  body.attribute = std::move(attribute);
  Graph graph = subgraph;
  std::vector<ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
  const std::vector<std::string> uses = subgraph.OuterUses();
  for (const std::string& name : std::set(uses.begin(), uses.end())) {
    const ValueId source = around.Find(name);
    if (!source) {
      Throw(ErrorCode::kInvalidGraph,
            "a sub-graph of \"{}\" reads \"{}\", which comes from nowhere",
            around.name, name);
    }
    // A name that only a sub-graph of the sub-graph reads is not there yet.
    ValueId inside = graph.Find(name);
    if (!inside) inside = graph.AddValue(name);
    graph.value(inside).outer = false;
    const Value& outside = around.value(source);
    if (outside.initializer && !outside.is_input) {
      TensorData constant = *outside.initializer;
      constant.name = name;
      graph.AddInitializer(std::move(constant));
      continue;
    }
    inputs.push_back(inside);
    body.captured.push_back(source);
  }
  graph.SetInputs(std::move(inputs));
  body.lowered = Lower(std::move(graph), custom_ops);
  // It would write into values of the graph around, in the midst of a step.
  for (NodeId id : body.lowered.order) {
    if (!body.lowered.writes_inputs[static_cast<size_t>(id.index)]) continue;
    const Graph& inner = body.lowered.graph;
    Throw(ErrorCode::kInvalidGraph,
          "{} writes into its input, which a sub-graph may not",
          Describe(inner, inner.node(id)));
  }
  return body;
}

void LowerBodies(LoweredGraph& lowered,
                 std::span<const CustomOpDomain* const> custom_ops) {
  const Graph& graph = lowered.graph;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!IsControlFlow(node)) continue;
    auto& bodies = lowered.bodies[id.index];
    const bool is_if = node.op_type == "If";
    for (const char* name : {"then_branch", "else_branch", "body"}) {
      if (is_if == (std::string_view(name) == "body")) continue;
      const Attribute* attribute = node.FindAttribute(name);
      const auto* subgraph =
          attribute == nullptr
              ? nullptr
              : std::get_if<std::shared_ptr<const Graph>>(&attribute->value);
      if (subgraph == nullptr || *subgraph == nullptr) {
        Throw(ErrorCode::kInvalidGraph, "{} has no sub-graph \"{}\"",
              Describe(graph, node), name);
      }
      bodies.push_back(LowerBody(graph, **subgraph, name, custom_ops));
    }
  }
}

}  // namespace

bool DrawsRandom(const LoweredGraph& lowered) {
  for (NodeId id : lowered.order) {
    if (lowered.ops[static_cast<size_t>(id.index)]->is_random) return true;
  }
  for (const auto& [node, bodies] : lowered.bodies) {
    for (const LoweredBody& body : bodies) {
      if (DrawsRandom(body.lowered)) return true;
    }
  }
  return false;
}

bool IsControlFlow(const Node& node) {
  return node.domain.empty() &&
         (node.op_type == "If" || node.op_type == "Loop" ||
          node.op_type == "Scan");
}

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
  LowerBodies(lowered, custom_ops);
  return lowered;
}

}  // namespace strop
