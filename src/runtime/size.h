// SPDX-License-Identifier: Apache-2.0
//
// Size: from a lowered graph and concrete inputs to a plan. Infers shapes,
// folds what is known before the step (shape arithmetic), asks the providers
// for kernels, inserts Reorder steps between layouts, and places every buffer
// in the arena.
//
// Where a node's shapes depend on data, the plan ends as a segment; it is
// run, its surviving values are carried over, and the next segment is sized.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/lower.h"
#include "runtime/plan.h"
#include "strop/execution_provider.h"

namespace strop {

class ConstantInputs;
class ControlFlow;
class StepBudget;

// Values of at most this many bytes are computed when the plan is made if
// their inputs are known; larger ones only if they do not grow.
inline constexpr size_t kFoldBytes = 4096;

struct SizeOptions {
  std::span<const std::shared_ptr<ExecutionProvider>> providers;
  int num_threads = 1;
  // Nodes run in LoweredGraph::order_writes_last.
  bool writes_last = false;
  // Runs the nodes with sub-graphs; null where the graph has none.
  ControlFlow* control_flow = nullptr;
  // Inputs known from the beginning; null: none. They outlive the sizer and
  // the plans.
  const ConstantInputs* constants = nullptr;
  // Of the step. Not null.
  StepBudget* budget = nullptr;
};

class Sizer {
 public:
  // `inputs` are the graph's inputs in order; types and shapes are copied.
  // The graph must outlive the sizer and the plans.
  Sizer(const LoweredGraph& lowered, std::span<const Argument> inputs,
        const SizeOptions& options);
  ~Sizer();

  // The plan for the nodes up to the end, or up to the first node that needs
  // a value that is not known yet. Throws Error from shape inference, and
  // kNotImplemented where no kernel exists for a node. `random` is that of
  // the step; null before the step, when nothing random may be drawn.
  std::unique_ptr<Plan> Next(const RandomKey* random = nullptr);

  bool done() const;

  // After the last plan ran: the memory of its arena at `base`. Values that
  // later nodes read are known from there on; the memory must stay valid.
  void Carry(const Plan& plan, std::byte* base);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
