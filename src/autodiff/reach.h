// SPDX-License-Identifier: Apache-2.0
//
// Which nodes lie between the values to differentiate by and the outputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "autodiff/differentiate.h"
#include "graph/graph.h"
#include "strop/op.h"

namespace strop {

// A tensor of a float type.
bool IsDifferentiable(const Graph& graph, ValueId id);
// What QuantizeLinear gives: an integer through which a gradient, of a float
// type, passes to DequantizeLinear alone.
bool IsQuantized(const Graph& graph, ValueId id);

class Reach {
 public:
  Reach(const Graph& graph, std::span<const ValueId> outputs,
        std::span<const ValueId> wrt,
        std::span<const CustomOpDomain* const> custom);

  // The node's rule must be called: something it gives is needed.
  bool Contains(NodeId id) const {
    return backward_node_[static_cast<size_t>(id.index)];
  }
  // The gradient of the node's input is needed.
  bool Needs(NodeId id, size_t input) const;
  // The outputs depend on the value, through edges that carry a gradient.
  bool Reaches(ValueId id) const {
    return reaching_[static_cast<size_t>(id.index)];
  }

  // Nodes on the way that have no rule, each with the way through it.
  std::vector<Blocker> Blockers() const;

 private:
  void GoForward(std::span<const ValueId> wrt);
  void GoBackward(std::span<const ValueId> outputs);
  bool Carries(const Node& node, size_t input) const;
  // A sub-graph of the node reads a value that depends on wrt.
  bool Captures(const Node& node) const;
  ValueId CapturedOf(const Node& node) const;
  void MarkOutputs(const Node& node, ValueId from);
  const OpDef* OpOf(const Node& node) const;
  void AddBlockersInside(NodeId id, std::vector<Blocker>* to) const;
  void Reached(ValueId id, ValueId through);
  std::string Chain(ValueId first, const std::vector<ValueId>& next,
                    bool backwards) const;
  std::string WayThrough(NodeId blocked) const;

  const Graph& graph_;
  std::span<const CustomOpDomain* const> custom_;
  std::vector<bool> depends_;   // by value: on a value of wrt
  std::vector<bool> reaching_;  // by value: depends, and an output needs it
  std::vector<bool> backward_node_;
  // By value: through which it depends, and through which it reaches an output.
  std::vector<ValueId> from_, to_;
};

}  // namespace strop
