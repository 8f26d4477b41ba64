// SPDX-License-Identifier: Apache-2.0
//
// Exporters merge initializers that are equal when the file is written, as a
// fresh net's ones and zeros are: one stays, an Identity of it stands for each
// of the others. They are tensors of their own all the same, and must not be
// trained as one.
#include <algorithm>
#include <set>

#include "artifacts/training_graphs.h"
#include "artifacts/weights.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/number.h"

namespace strop {
namespace {

bool IsIdentity(const Node& node) {
  return node.op_type == "Identity" && node.domain.empty() && !node.removed &&
         node.input(0) && node.output(0);
}

bool HoldsGraph(const Node& node) {
  bool holds = false;
  ForEachSubgraph(node, [&](const Graph&) { holds = true; });
  return holds;
}

class Untier {
 public:
  explicit Untier(Graph& graph) : graph_(graph), readers_(graph.Consumers()) {}

  std::map<ValueId, std::string> Untie(std::set<ValueId> merged) {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    for (const NodeId id : order) {
      if (!IsBatchNormalization(graph_.node(id))) continue;
      for (const size_t slot : {size_t{3}, size_t{4}}) {
        FindStatistic(id, slot);
        SeparateStatistic(id, slot);
      }
    }
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (!IsIdentity(node) || !merged.contains(node.inputs[0])) continue;
      if (graph_.value(node.outputs[0]).is_output) continue;
      if (Readers(node.inputs[0]).size() < 2) continue;
      GiveOwnValues(id, node.inputs[0]);
      merged.insert(node.outputs[0]);
    }
    return std::move(untied_);
  }

 private:
  std::vector<NodeId>& Readers(ValueId id) {
    const auto at = static_cast<size_t>(id.index);
    if (at >= readers_.size()) readers_.resize(at + 1);
    return readers_[at];
  }

  // A node that reads its statistic through Identities reads the initializer
  // itself if nobody else does, else values of its own.
  void FindStatistic(NodeId id, size_t slot) {
    const ValueId end = graph_.node(id).input(slot);
    ValueId root = end;
    bool is_alone = true;
    while (root && graph_.value(root).producer) {
      const Node& producer = graph_.node(graph_.value(root).producer);
      if (!IsIdentity(producer)) return;
      is_alone &= Readers(root).size() == 1 && !graph_.value(root).is_output;
      root = producer.input(0);
    }
    if (root == end || !graph_.value(root).initializer) return;
    if (is_alone && Readers(root).size() == 1) {
      graph_.node(id).inputs[slot] = root;
      Readers(root) = {id};
      Readers(end).clear();
    } else if (graph_.value(end).is_output) {
      ReadCopy(id, slot, end, root);
    } else {
      GiveOwnValues(graph_.value(end).producer, root);
    }
  }

  // What is a statistic here and something else elsewhere.
  void SeparateStatistic(NodeId id, size_t slot) {
    const ValueId statistic = graph_.node(id).input(slot);
    if (!statistic || !graph_.value(statistic).initializer) return;
    const auto is_other = [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      if (!IsBatchNormalization(node)) return !HoldsGraph(node);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (i != slot && node.inputs[i] == statistic) return true;
      return false;
    };
    if (std::ranges::any_of(Readers(statistic), is_other))
      ReadCopy(id, slot, statistic, statistic);
  }

  // A new initializer takes the place of `from` in one slot of the node.
  void ReadCopy(NodeId id, size_t slot, ValueId from, ValueId root) {
    const std::string name = fmt::format(
        "{}_running_{}", graph_.value_name(from), slot == 3 ? "mean" : "var");
    const ValueId own = Copy(root, graph_.FreshName(name));
    graph_.node(id).inputs[slot] = own;
    std::vector<NodeId>& readers = Readers(from);
    readers.erase(std::ranges::find(readers, id));
    Readers(own) = {id};
  }

  // What the Identity gives becomes an initializer of that name.
  void GiveOwnValues(NodeId identity, ValueId root) {
    const ValueId from = graph_.node(identity).inputs[0];
    graph_.RemoveNode(identity);
    std::erase(Readers(from), identity);
    Copy(root, graph_.value_name(graph_.node(identity).outputs[0]));
  }

  ValueId Copy(ValueId id, std::string name) {
    TensorData data = *graph_.value(id).initializer;
    data.name = std::move(name);
    data.encoded = {};
    const ValueId copy = graph_.AddInitializer(std::move(data));
    untied_[copy] = graph_.value_name(id);
    return copy;
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;  // by value index
  std::map<ValueId, std::string> untied_;
};

}  // namespace

std::map<ValueId, std::string> UntieMerged(Graph& graph) {
  std::set<ValueId> merged;
  for (const ValueId id : graph.initializers()) {
    const TensorData& data = *graph.value(id).initializer;
    if (ops::IsFloatingPoint(data.type) && !data.dims.empty())
      merged.insert(id);
  }
  return Untier(graph).Untie(std::move(merged));
}

}  // namespace strop
