// SPDX-License-Identifier: Apache-2.0
//
// Makes the plan of a segment: slots for values, steps with kernels for nodes,
// Reorder steps where layouts differ. What is to be a step, and what is known
// already, is decided in size.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/choose_recompute.h"
#include "runtime/lower.h"
#include "runtime/plan.h"
#include "runtime/size.h"
#include "strop/execution_provider.h"

namespace strop {

// What is known of a graph value while plans are made.
struct KnownValue {
  bool inferred = false;
  ValueInfo info;
  int input = -1;  // the graph input whose memory this value is, by position
  bool varies = false;  // known for this step only: carried over
};

// Whether the op looks at the elements of the input, not at its shape only.
bool ReadsElements(const OpDef& op, size_t input);

class SegmentBuilder {
 public:
  // `values` by value index. All must outlive the builder; `values` learns
  // which of them are a graph input's memory.
  SegmentBuilder(const LoweredGraph& lowered, std::vector<KnownValue>& values,
                 const SizeOptions& options);

  // A new plan. The slots of the last one are forgotten.
  void Begin();
  // Recomputed: the output is one of the two inputs, to be chosen.
  void AddRecomputed(const Node& node);
  // An op that computes nothing: the output is the input's memory.
  void AddView(const Node& node);
  void AddStep(NodeId id);
  // The outputs of a node that has run already.
  void AddConstants(std::vector<std::unique_ptr<OwnedTensor>> results);
  // The plan. `carried`, by value index: what is read after the segment;
  // empty for the last one.
  std::unique_ptr<Plan> Finish(const std::vector<bool>& carried);

  // Where a value of the last plan lies in plain layout; -1: nowhere.
  int PlainSlot(ValueId id) const;

  // For a node whose outputs are inferred. Holds until the next call.
  KernelRequest RequestFor(const Node& node, const OpDef& op);

  // Throws kOutOfMemory where no machine could hold the value.
  size_t StoredBytes(ValueId id, const TensorInfo& info, Layout layout) const;

 private:
  struct LayoutCopy {
    Layout layout;
    int slot;
  };
  // A value in the plan being made.
  struct Place {
    int slot = -1;
    std::vector<LayoutCopy> copies;
  };

  KnownValue& Known(ValueId id);
  Place& PlaceOf(ValueId id) { return places_[static_cast<size_t>(id.index)]; }
  PlanSlot& Slot(int slot) { return plan_->slots[static_cast<size_t>(slot)]; }

  int AddSlot(ValueId id, const TensorInfo& info, PlanSlot::Storage storage,
              Layout layout = Layout::kPlain);
  int SlotOf(ValueId id);
  int SlotIn(ValueId id, Layout layout);
  int SlotForShape(ValueId id);
  int AddReorder(int from, Layout layout);
  void AddInputs(const Node& node, const OpDef& op, const KernelChoice& choice,
                 PlanStep& step);
  int AddOutput(const Node& node, const OpDef& op, size_t i,
                const PlanStep& step, Layout layout);
  void CheckWrites(const Node& node, const OpDef& op, const PlanStep& step);
  KernelChoice AskProviders(const KernelRequest& request, PlanStep& step);
  KernelChoice ChooseKernel(const Node& node, const OpDef& op, PlanStep& step);
  void FinishOutputs();
  size_t MostArenaBytes() const;

  const LoweredGraph& lowered_;
  const Graph& graph_;
  std::vector<KnownValue>& values_;
  const SizeOptions& options_;
  std::unique_ptr<Plan> plan_;
  std::vector<Place> places_;
  std::vector<RecomputeChoice> choices_;
  std::vector<KernelInput> kernel_inputs_;
  std::vector<TensorInfo> kernel_outputs_;
};

}  // namespace strop
