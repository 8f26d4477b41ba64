// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: nodes that run sub-graphs. What they give depends on
// data, so they run between the segments of a plan (size.h), each sub-graph
// with an executor of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/executor.h"
#include "runtime/lower.h"
#include "runtime/step_budget.h"

namespace strop {

struct KnownValue;

class ControlFlow {
 public:
  using Tensors = std::vector<std::unique_ptr<OwnedTensor>>;
  // What the node reads. It is known.
  using ValueOf = std::function<const KnownValue&(ValueId)>;

  // Takes the sub-graphs out of `lowered`, which outlives this.
  ControlFlow(LoweredGraph& lowered, const ExecutorOptions& options);
  ~ControlFlow();

  bool Has(NodeId node) const;
  // What the node reads, its sub-graphs included.
  const std::vector<ValueId>& Reads(NodeId node) const;
  // Whether a sub-graph draws random numbers.
  bool IsRandom(NodeId node) const;

  // What Run gives, computed before the step. Nullopt where that draws random
  // numbers, or where the work or the results are too large for it.
  std::optional<Tensors> Fold(NodeId node, const ValueOf& value_of);

  // Runs the node. One tensor for each output, null where it is left out.
  Tensors Run(NodeId node, const ValueOf& value_of, const RandomKey& random);

 private:
  struct Entry;
  std::vector<HeldTensor> RunNode(NodeId node, const ValueOf& value_of,
                                  const RandomKey& random);

  const Graph& graph_;
  std::shared_ptr<StepBudget> budget_;
  std::map<int32_t, std::unique_ptr<Entry>> entries_;
};

}  // namespace strop
