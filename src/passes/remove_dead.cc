// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

// A node that writes into an input has an effect beside its outputs; so may
// have one that is not in the registry (a custom op).
bool HasEffect(const Graph& graph, const Node& node) {
  const OpDef* op = OpOf(graph, node);
  return op == nullptr || !op->mutates.empty();
}

}  // namespace

void RemoveDead(Graph& graph) {
  std::vector<bool> needed(graph.value_count(), false);
  for (ValueId output : graph.outputs()) {
    needed[static_cast<size_t>(output.index)] = true;
  }
  // What each node reads, its sub-graphs included.
  std::map<NodeId, std::vector<ValueId>> reads;
  const auto all_consumers = graph.Consumers();
  for (size_t i = 0; i < all_consumers.size(); ++i) {
    for (NodeId id : all_consumers[i]) {
      reads[id].push_back(ValueId{static_cast<int32_t>(i)});
    }
  }
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    bool live = HasEffect(graph, node);
    for (ValueId output : node.outputs) {
      live = live || (output && needed[static_cast<size_t>(output.index)]);
    }
    if (!live) {
      graph.RemoveNode(order[i]);
      continue;
    }
    for (ValueId input : reads[order[i]]) {
      needed[static_cast<size_t>(input.index)] = true;
    }
  }
  const auto consumers = graph.Consumers();
  const std::vector<ValueId> initializers(graph.initializers().begin(),
                                          graph.initializers().end());
  for (ValueId id : initializers) {
    const Value& value = graph.value(id);
    if (consumers[static_cast<size_t>(id.index)].empty() && !value.is_input &&
        !value.is_output) {
      graph.RemoveInitializer(id);
    }
  }
}

}  // namespace strop
