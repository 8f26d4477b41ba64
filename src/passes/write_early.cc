// SPDX-License-Identifier: Apache-2.0
//
// Orders nodes that write into graph inputs which nobody else reads (gradient
// buffers), and nodes that only such nodes read, right behind the last node
// that they wait for: what they read can die then. A file may hold all weight
// gradients behind the whole chain of the others.
#include <algorithm>
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

class Orderer {
 public:
  explicit Orderer(Graph& graph)
      : graph_(graph), consumers_(graph.Consumers()) {}

  void Run() {
    FindEager();
    std::vector<int> waits(graph_.node_count(), 0);
    for (NodeId id : graph_.order()) {
      for (ValueId read : graph_.Reads(graph_.node(id))) {
        if (graph_.value(read).producer) ++waits[Index(id)];
      }
    }
    std::vector<NodeId> sorted, ready;
    for (NodeId id : graph_.order()) {
      // One that waits for nothing stays where it is.
      if (eager_[Index(id)] && WaitsForNode(id)) continue;
      ready.push_back(id);
      while (!ready.empty()) {
        const NodeId next = ready.back();
        ready.pop_back();
        sorted.push_back(next);
        for (ValueId output : graph_.node(next).outputs) {
          for (NodeId reader : ReadersOf(output)) {
            if (--waits[Index(reader)] == 0 && eager_[Index(reader)]) {
              ready.push_back(reader);
            }
          }
        }
      }
    }
    graph_.SetOrder(std::move(sorted));
  }

 private:
  static size_t Index(NodeId id) { return static_cast<size_t>(id.index); }

  std::vector<NodeId> ReadersOf(ValueId value) const {
    if (!value) return {};
    return consumers_[static_cast<size_t>(value.index)];
  }

  bool WaitsForNode(NodeId id) const {
    const auto reads = graph_.Reads(graph_.node(id));
    return std::ranges::any_of(reads, [&](ValueId read) {
      return static_cast<bool>(graph_.value(read).producer);
    });
  }

  void FindEager() {
    eager_.assign(graph_.node_count(), false);
    std::vector<bool> writes(graph_.node_count(), false);
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const OpDef* op = OpOf(graph_, node);
      writes[Index(id)] = op != nullptr && OwnsWhatItWrites(node, *op) &&
                          AllReaders(node, [](NodeId) { return false; });
    }
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const OpDef* op = OpOf(graph_, node);
      const bool has_effect = op == nullptr || !op->mutates.empty();
      const auto writes_it = [&](NodeId reader) {
        return writes[Index(reader)];
      };
      eager_[Index(id)] =
          writes[Index(id)] || (!has_effect && AllReaders(node, writes_it));
    }
  }

  bool OwnsWhatItWrites(const Node& node, const OpDef& op) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && op.mutates.contains(i) &&
          ReadersOf(node.inputs[i]).size() > 1) {
        return false;
      }
    }
    return !op.mutates.empty();
  }

  // Whether no output leaves the graph and each reader passes.
  template <class F>
  bool AllReaders(const Node& node, F passes) const {
    return std::ranges::all_of(node.outputs, [&](ValueId output) {
      return !output || (!graph_.value(output).is_output &&
                         std::ranges::all_of(ReadersOf(output), passes));
    });
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> eager_;  // by node
};

}  // namespace

void WriteEarly(Graph& graph) { Orderer(graph).Run(); }

}  // namespace strop
