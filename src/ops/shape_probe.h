// SPDX-License-Identifier: Apache-2.0
//
// One pass of shape inference over a graph with concrete input shapes, without
// running it. Small values that depend on shapes only are computed, for the
// ops that need them (Reshape, Expand, ...).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "strop/op.h"
#include "strop/tensor.h"

namespace strop {

class ShapeProbe {
 public:
  struct NodeError {
    NodeId node;
    ErrorCode code;
    std::string text;
  };

  // `unknown_count`: how often a loop of unknown length is taken to run.
  ShapeProbe(const Graph& graph, std::span<const CustomOpDomain* const> custom,
             int64_t unknown_count);

  void SetInput(ValueId id, TensorInfo info) { Set(id, std::move(info)); }
  // A value whose elements are known; it must outlive the probe.
  void SetKnown(ValueId id, const Tensor& tensor);
  void Run();

  // Null where it is not known.
  const ValueInfo* info(ValueId id) const;
  // One for each node that could not be inferred although its inputs are
  // known, in order.
  const std::vector<NodeError>& errors() const { return errors_; }

 private:
  using Infos = std::vector<const ValueInfo*>;

  void Set(ValueId id, TensorInfo info);
  void RunNode(const Node& node);
  void RunIf(const Node& node);
  // Runs the body and keeps what it says of arity and attributes: its other
  // errors may be of shapes that no iteration has.
  void RunBody(const Node& holder, ShapeProbe& body);
  // Makes `common` what holds for both; false where type or rank differ.
  bool Meet(TensorInfo& common, const TensorInfo& other);
  void RunLoop(const Node& node);
  void RunScan(const Node& node, bool has_batch_axis);
  // The body with what it captures, its inputs still to be set.
  std::unique_ptr<ShapeProbe> BodyOf(const Node& node,
                                     std::string_view attribute);
  bool InputsKnown(const Node& node, const OpDef& op) const;
  void Fold(const Node& node, const OpDef& op);
  std::optional<std::vector<std::unique_ptr<OwnedTensor>>> Compute(
      const Node& node, const OpDef& op);

  const Graph& graph_;
  std::span<const CustomOpDomain* const> custom_;
  const int64_t unknown_count_;
  int64_t unknown_sizes_ = 0;                    // how many there are already
  std::vector<std::optional<ValueInfo>> infos_;  // by value
  std::deque<Tensor> known_;
  std::vector<std::unique_ptr<OwnedTensor>> computed_;
  std::vector<NodeError> errors_;
  NodeId running_;
};

}  // namespace strop
