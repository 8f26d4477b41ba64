// SPDX-License-Identifier: Apache-2.0
//
// Values of the forward pass that the backward pass reads, and that can be
// computed again there, get that choice: the backward pass reads
//   Recomputed(value, value computed again)
// in their place. The plan chooses one of the two when it knows the sizes, by
// the memory that it saves (runtime/choose_recompute.h).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

bool HasSubgraph(const Node& node) {
  return std::ranges::any_of(node.attributes, [](const Attribute& attribute) {
    return std::holds_alternative<std::shared_ptr<const Graph>>(
        attribute.value);
  });
}

// Not elementwise, but no dearer.
bool IsCheapByRows(const Node& node) {
  constexpr std::string_view kOps[] = {"LayerNormalization",
                                       "SimplifiedLayerNormalization",
                                       "RMSNormalization", "BiasGelu"};
  return std::ranges::find(kOps, node.op_type) != std::end(kOps);
}

// A product is worth it where a softmax follows: then it is larger than what
// it is made of.
bool IsProductWithSoftmax(const Node& node) {
  return node.domain == kInternal && node.op_type == "MatMul" &&
         node.FindAttribute("then") != nullptr;
}

// Whether output 0 is the same without the others: which outputs are named may
// change what a node means (Split, BatchNormalization).
bool StandsAlone(const Node& node) {
  const bool has_others =
      std::any_of(node.outputs.begin() + 1, node.outputs.end(),
                  [](ValueId output) { return static_cast<bool>(output); });
  return !has_others || IsCheapByRows(node) || node.op_type == "MaxPool";
}

class Marker {
 public:
  Marker(Graph& graph, bool costly) : graph_(graph), costly_(costly) {}

  void Run() {
    FindForward();
    written_ = FindWritten(graph_);
    consumers_ = graph_.Consumers();
    place_ = PlacesInOrder(graph_);
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    before_.resize(order.size());
    // From the end: what is computed again is read in the backward pass, too.
    for (size_t i = order.size(); i-- > 0;) {
      if (forward_[Index(order[i])]) TryAt(order[i]);
    }
    if (changed_) InsertNodes(order);
  }

 private:
  static size_t Index(NodeId id) { return static_cast<size_t>(id.index); }
  static size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

  // What the graph's outputs depend on; the rest is the backward pass.
  void FindForward() {
    forward_.assign(graph_.node_count(), false);
    std::vector<bool> needed(graph_.value_count(), false);
    for (ValueId output : graph_.outputs()) needed[Index(output)] = true;
    for (size_t i = graph_.order().size(); i-- > 0;) {
      const NodeId id = graph_.order()[i];
      const Node& node = graph_.node(id);
      for (ValueId output : node.outputs) {
        if (output && needed[Index(output)]) forward_[Index(id)] = true;
      }
      if (!forward_[Index(id)]) continue;
      for (ValueId read : graph_.Reads(node)) needed[Index(read)] = true;
    }
  }

  // Readers of the value in the backward pass; empty where a sub-graph is
  // among them.
  std::vector<NodeId> LateReaders(ValueId value) const {
    std::vector<NodeId> readers;
    for (NodeId id : consumers_[Index(value)]) {
      if (IsForward(id)) continue;
      if (HasSubgraph(graph_.node(id))) return {};
      readers.push_back(id);
    }
    return readers;
  }

  // Nodes that this pass made belong to the backward pass.
  bool IsForward(NodeId id) const {
    return Index(id) < forward_.size() && forward_[Index(id)];
  }

  void TryAt(NodeId id) {
    const ValueId y = graph_.node(id).output(0);
    if (!y || graph_.value(y).is_output) return;
    const std::vector<NodeId> readers = LateReaders(y);
    if (readers.empty()) return;
    auto again = MakeAgain(graph_.node(id));
    if (again) Insert(y, readers, std::move(*again));
  }

  // The node that computes output 0 again, without outputs; nullopt where
  // that cannot be done or is not worth it.
  std::optional<Node> MakeAgain(const Node& node) const {
    const OpDef* op = OpOf(graph_, node);
    if (op == nullptr || node.inputs.empty()) return std::nullopt;
    if (auto norm = MakeBatchNorm(node)) return norm;
    if (auto dropout = MakeDropout(node)) return dropout;
    if (op->is_random || op->outputs.min != 1 || !op->mutates.empty() ||
        op->aliases[0].output >= 0 || HasSubgraph(node) || !StandsAlone(node)) {
      return std::nullopt;
    }
    const bool cheap = op->cheap || op->is_view || IsCheapByRows(node) ||
                       IsProductWithSoftmax(node);
    if (!costly_ && !cheap) return std::nullopt;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!input) continue;
      if (written_[Index(input)]) return std::nullopt;
      // The plan must not wait for a value for its sake.
      if (op->value_inputs.contains(i) && !op->is_view &&
          !graph_.value(input).initializer) {
        return std::nullopt;
      }
    }
    return node;
  }

  // From the statistics that the forward pass saved.
  static std::optional<Node> MakeBatchNorm(const Node& node) {
    const bool is_norm =
        (node.domain == kMicrosoft && node.op_type == "BatchNormInternal") ||
        (node.domain == kInternal && node.op_type == "BatchNormActivation");
    if (!is_norm || !node.output(3) || !node.output(4)) return std::nullopt;
    Node again = node;
    again.domain = kInternal;
    again.op_type = "BatchNormApply";
    again.inputs[3] = node.output(3);
    again.inputs[4] = node.output(4);
    return again;
  }

  // The gradient's formula is the forward one with the mask given.
  static std::optional<Node> MakeDropout(const Node& node) {
    const bool is_bits =
        node.domain == kMicrosoft && node.op_type == "BitmaskDropout";
    const bool is_dropout = node.domain == kOnnx && node.op_type == "Dropout";
    if ((!is_bits && !is_dropout) || !node.output(1) || !node.input(2)) {
      return std::nullopt;
    }
    Node again = node;
    again.domain = kMicrosoft;
    again.op_type = is_bits ? "BitmaskDropoutGrad" : "DropoutGrad";
    again.inputs = {node.input(0), node.output(1), node.input(1),
                    node.input(2)};
    again.attributes.clear();
    return again;
  }

  // Both nodes go before the first of the readers.
  void Insert(ValueId y, const std::vector<NodeId>& readers, Node again) {
    size_t first = before_.size();
    for (NodeId id : readers) first = std::min(first, place_[Index(id)]);
    const ValueType type = graph_.value(y).type;
    const std::string name = graph_.value_name(y);
    const ValueId computed =
        graph_.AddValue(graph_.FreshName(name + "_again"), type);
    const ValueId either =
        graph_.AddValue(graph_.FreshName(name + "_kept_or_again"), type);
    Node choice;
    choice.name = again.name;
    choice.op_type = "Recomputed";
    choice.domain = kInternal;
    choice.inputs = {y, computed};
    choice.outputs = {either};
    for (NodeId id : readers) {
      std::ranges::replace(graph_.node(id).inputs, y, either);
    }
    again.outputs = {computed};
    consumers_.resize(graph_.value_count());
    before_[first].push_back(Add(std::move(choice), first));
    before_[first].push_back(Add(std::move(again), first));
    changed_ = true;
  }

  NodeId Add(Node node, size_t place) {
    const std::vector<ValueId> inputs = node.inputs;
    const NodeId id = graph_.AddNode(std::move(node));
    for (ValueId input : inputs) {
      if (input) consumers_[Index(input)].push_back(id);
    }
    place_.push_back(place);
    return id;
  }

  // What was made last is read by what was made before it.
  void InsertNodes(const std::vector<NodeId>& order) {
    std::vector<NodeId> all;
    for (size_t i = 0; i < order.size(); ++i) {
      all.insert(all.end(), before_[i].rbegin(), before_[i].rend());
      all.push_back(order[i]);
    }
    graph_.SetOrder(std::move(all));
  }

  Graph& graph_;
  bool costly_;
  bool changed_ = false;
  std::vector<bool> forward_;  // by node
  std::vector<bool> written_;  // by value
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<size_t> place_;                // by node: in the old order
  std::vector<std::vector<NodeId>> before_;  // new nodes, by place
};

}  // namespace

void MarkRecompute(Graph& graph) { Marker(graph, /*costly=*/false).Run(); }

void MarkCostlyRecompute(Graph& graph) { Marker(graph, /*costly=*/true).Run(); }

}  // namespace strop
