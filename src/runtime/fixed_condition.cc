// SPDX-License-Identifier: Apache-2.0
#include "runtime/fixed_condition.h"

#include <algorithm>
#include <vector>

#include "ops/registry.h"

namespace strop {
namespace {

// Values that stay the same while the Loop runs.
std::vector<bool> FixedValues(const LoweredBody& body) {
  const Graph& graph = body.lowered.graph;
  const auto inputs = graph.inputs();
  const size_t captured = inputs.size() - body.captured.size();
  std::vector<bool> fixed(graph.value_count(), false);
  for (size_t i = 0; i < fixed.size(); ++i) {
    const Value& value = graph.value({static_cast<int32_t>(i)});
    fixed[i] = value.initializer && !value.is_input;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i == 1 || i >= captured) {
      fixed[static_cast<size_t>(inputs[i].index)] = true;
    }
  }
  return fixed;
}

// Whether the node gives the same for the same inputs.
bool IsDeterministic(const LoweredGraph& lowered, NodeId id) {
  const auto bodies = lowered.bodies.find(id.index);
  if (bodies != lowered.bodies.end()) {
    return std::ranges::none_of(bodies->second, [](const LoweredBody& body) {
      return DrawsRandom(body.lowered);
    });
  }
  const OpDef* op = lowered.ops[static_cast<size_t>(id.index)];
  // Nobody knows about a user's op.
  return !op->is_random && FindOp(op->domain, op->name, op->since) == op;
}

}  // namespace

bool HasFixedCondition(const LoweredBody& body) {
  const LoweredGraph& lowered = body.lowered;
  const Graph& graph = lowered.graph;
  if (graph.outputs().empty()) return false;
  std::vector<bool> fixed = FixedValues(body);
  for (NodeId id : lowered.order) {
    const Node& node = graph.node(id);
    const bool is_fixed =
        IsDeterministic(lowered, id) &&
        std::ranges::all_of(graph.Reads(node), [&](ValueId read) {
          return fixed[static_cast<size_t>(read.index)];
        });
    for (ValueId output : node.outputs) {
      if (output) fixed[static_cast<size_t>(output.index)] = is_fixed;
    }
  }
  return fixed[static_cast<size_t>(graph.outputs()[0].index)];
}

}  // namespace strop
