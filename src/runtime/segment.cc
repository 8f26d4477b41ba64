// SPDX-License-Identifier: Apache-2.0
#include "runtime/segment.h"

#include <algorithm>
#include <utility>

#include "base/throw.h"
#include "ops/reference_kernel.h"
#include "ops/registry.h"
#include "runtime/place.h"
#include "runtime/step_budget.h"

namespace strop {
namespace {

Layout LayoutAt(const std::vector<Layout>& layouts, size_t i) {
  return i < layouts.size() ? layouts[i] : Layout::kPlain;
}

void FindFirstWrite(Plan& plan) {
  plan.first_write = plan.steps.size();
  for (size_t i = plan.steps.size(); i-- > 0;) {
    if (plan.steps[i].writes_inputs) plan.first_write = i;
  }
}

}  // namespace

bool ReadsElements(const OpDef& op, size_t input) {
  return !op.shape_inputs.contains(input);
}

SegmentBuilder::SegmentBuilder(const LoweredGraph& lowered,
                               std::vector<KnownValue>& values,
                               const SizeOptions& options)
    : lowered_(lowered),
      graph_(lowered.graph),
      values_(values),
      options_(options) {}

void SegmentBuilder::Begin() {
  plan_ = std::make_unique<Plan>();
  plan_->graph = &graph_;
  places_.assign(values_.size(), {});
  choices_.clear();
}

KnownValue& SegmentBuilder::Known(ValueId id) {
  return values_[static_cast<size_t>(id.index)];
}

// --- Slots

int SegmentBuilder::AddSlot(ValueId id, const TensorInfo& info,
                            PlanSlot::Storage storage, Layout layout) {
  PlanSlot slot;
  slot.value = id;
  slot.info = info;
  slot.layout = layout;
  slot.storage = storage;
  if (storage == PlanSlot::Storage::kArena) {
    slot.bytes = StoredBytes(id, info, layout);
  }
  plan_->slots.push_back(slot);
  return static_cast<int>(plan_->slots.size()) - 1;
}

size_t SegmentBuilder::StoredBytes(ValueId id, const TensorInfo& info,
                                   Layout layout) const {
  constexpr int64_t kMostBytes = int64_t{1} << 46;
  const auto size =
      static_cast<int64_t>(std::max<size_t>(DataTypeSize(info.type), 1));
  // A block of padding at most: sixteen times the elements.
  if (info.shape.element_count() > kMostBytes / size / 16) {
    Throw(ErrorCode::kOutOfMemory, "\"{}\" would be {} of shape {}",
          graph_.value_name(id), DataTypeName(info.type),
          info.shape.ToString());
  }
  return static_cast<size_t>(StoredElementCount(info.shape, layout) * size);
}

// The slot of a value, made at its first use in this plan.
int SegmentBuilder::SlotOf(ValueId id) {
  Place& place = PlaceOf(id);
  if (place.slot >= 0) return place.slot;
  const KnownValue& value = Known(id);
  if (value.input >= 0) {
    // A graph input, or what an earlier segment made a view of one.
    place.slot = AddSlot(id, value.info.tensor, PlanSlot::Storage::kInput);
    plan_->slots.back().is_list = value.info.is_list;
    plan_->slots.back().input = value.input;
  } else {
    STROP_CHECK(value.info.known != nullptr);
    place.slot = AddSlot(id, value.info.tensor, PlanSlot::Storage::kConstant);
    plan_->slots.back().constant = value.info.known->data();
  }
  return place.slot;
}

int SegmentBuilder::PlainSlot(ValueId id) const {
  const Place& place = places_[static_cast<size_t>(id.index)];
  for (const LayoutCopy& copy : place.copies) {
    if (copy.layout == Layout::kPlain) return copy.slot;
  }
  return place.slot;
}

// The slot of the value in `layout`; adds a Reorder step where needed.
int SegmentBuilder::SlotIn(ValueId id, Layout layout) {
  const int slot = SlotOf(id);
  if (Slot(slot).layout == layout) return slot;
  Place& place = PlaceOf(id);
  for (const LayoutCopy& copy : place.copies) {
    if (copy.layout == layout) return copy.slot;
  }
  const int copy = AddReorder(slot, layout);
  place.copies.push_back({layout, copy});
  return copy;
}

// A slot for a value of which only the shape is looked at.
int SegmentBuilder::SlotForShape(ValueId id) {
  const KnownValue& value = Known(id);
  if (PlaceOf(id).slot >= 0 || value.info.known != nullptr ||
      graph_.value(id).is_input) {
    return SlotOf(id);
  }
  return AddSlot(id, value.info.tensor, PlanSlot::Storage::kNone);
}

int SegmentBuilder::AddReorder(int from, Layout layout) {
  const PlanSlot source = Slot(from);
  Node& node = plan_->extra_nodes.emplace_back();
  node.op_type = "Reorder";
  node.domain = kInternal;
  node.name = graph_.value_name(source.value);
  node.SetAttribute("layout", static_cast<int64_t>(layout));

  static const OpDef& reorder = *FindOp(kInternal, "Reorder", 1);
  const KernelInput input = {.info = source.info, .layout = source.layout};
  KernelRequest request = {.node = OpNode(graph_, node),
                           .op = reorder,
                           .inputs = {&input, 1},
                           .outputs = {&source.info, 1},
                           .num_threads = options_.num_threads};
  PlanStep step;
  KernelChoice choice = AskProviders(request, step);
  if (choice.kernel == nullptr) {
    Throw(ErrorCode::kInternal, "no kernel reorders \"{}\" from {} to {}: {}",
          node.name, LayoutName(source.layout), LayoutName(layout),
          step.declined);
  }
  const int to =
      AddSlot(source.value, source.info, PlanSlot::Storage::kArena, layout);
  step.node = &node;
  step.op = &reorder;
  step.kernel = std::move(choice.kernel);
  step.scratch_bytes = choice.scratch_bytes;
  step.inputs = {from};
  step.outputs = {to};
  plan_->steps.push_back(std::move(step));
  return to;
}

// --- Nodes

void SegmentBuilder::AddView(const Node& node) {
  const int source = SlotIn(node.inputs[0], Layout::kPlain);
  KnownValue& to = Known(node.outputs[0]);
  const int slot =
      AddSlot(node.outputs[0], to.info.tensor, Slot(source).storage);
  Slot(slot).input = Slot(source).input;
  Slot(slot).shares = source;
  to.input = Slot(slot).input;
  PlaceOf(node.outputs[0]).slot = slot;
}

void SegmentBuilder::AddRecomputed(const Node& node) {
  const int kept = SlotOf(node.inputs[0]), again = SlotOf(node.inputs[1]);
  KnownValue& to = Known(node.outputs[0]);
  const PlanSlot source = Slot(kept);
  const int slot =
      AddSlot(node.outputs[0], to.info.tensor, source.storage, source.layout);
  Slot(slot).input = source.input;
  Slot(slot).constant = source.constant;
  Slot(slot).shares = kept;
  to.input = source.input;
  PlaceOf(node.outputs[0]).slot = slot;
  const PlanSlot& other = Slot(again);
  const bool open = source.storage == PlanSlot::Storage::kArena &&
                    other.storage == source.storage &&
                    other.layout == source.layout;
  choices_.push_back({kept, again, slot, open});
}

void SegmentBuilder::AddConstants(
    std::vector<std::unique_ptr<OwnedTensor>> results) {
  for (auto& result : results) {
    if (result == nullptr) continue;
    plan_->constant_bytes += result->view().byte_count();
    plan_->constants.push_back(std::move(result));
  }
}

void SegmentBuilder::AddStep(NodeId id) {
  const Node& node = graph_.node(id);
  const OpDef& op = *lowered_.ops[static_cast<size_t>(id.index)];
  PlanStep step;
  step.node = &node;
  step.op = &op;
  step.random_node = static_cast<uint32_t>(id.index);
  step.writes_inputs = lowered_.writes_inputs[static_cast<size_t>(id.index)];
  KernelChoice choice = ChooseKernel(node, op, step);
  step.scratch_bytes = choice.scratch_bytes;
  step.flops = choice.flops;
  step.kernel = std::move(choice.kernel);
  AddInputs(node, op, choice, step);
  CheckWrites(node, op, step);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    step.outputs.push_back(
        node.outputs[i]
            ? AddOutput(node, op, i, step, LayoutAt(choice.output_layouts, i))
            : -1);
  }
  plan_->steps.push_back(std::move(step));
}

void SegmentBuilder::AddInputs(const Node& node, const OpDef& op,
                               const KernelChoice& choice, PlanStep& step) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (!input) {
      step.inputs.push_back(-1);
    } else if (Known(input).info.is_list || !ReadsElements(op, i)) {
      step.inputs.push_back(SlotForShape(input));
    } else {
      step.inputs.push_back(SlotIn(input, LayoutAt(choice.input_layouts, i)));
    }
  }
}

int SegmentBuilder::AddOutput(const Node& node, const OpDef& op, size_t i,
                              const PlanStep& step, Layout layout) {
  KnownValue& value = Known(node.outputs[i]);
  int& place = PlaceOf(node.outputs[i]).slot;
  for (const Alias& alias : op.aliases) {
    if (alias.output != static_cast<int>(i)) continue;
    if (static_cast<size_t>(alias.input) >= step.inputs.size() ||
        step.inputs[static_cast<size_t>(alias.input)] < 0) {
      continue;
    }
    const int source = step.inputs[static_cast<size_t>(alias.input)];
    const PlanSlot from = Slot(source);
    place = AddSlot(node.outputs[i], value.info.tensor, from.storage, layout);
    PlanSlot& slot = Slot(place);
    slot.input = from.input;
    value.input = from.input;
    slot.is_list = from.is_list;
    slot.constant = from.constant;
    slot.shares = source;
    return place;
  }
  place = AddSlot(node.outputs[i], value.info.tensor, PlanSlot::Storage::kArena,
                  layout);
  return place;
}

void SegmentBuilder::CheckWrites(const Node& node, const OpDef& op,
                                 const PlanStep& step) {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (!op.mutates.contains(i) || step.inputs[i] < 0) continue;
    if (Slot(step.inputs[i]).storage == PlanSlot::Storage::kConstant) {
      Throw(ErrorCode::kInvalidGraph,
            "{} writes into \"{}\", which is a constant",
            Describe(graph_, node), graph_.value_name(node.inputs[i]));
    }
  }
}

// --- Kernels

KernelChoice SegmentBuilder::AskProviders(const KernelRequest& request,
                                          PlanStep& step) {
  for (const auto& provider : options_.providers) {
    KernelChoice choice = provider->Choose(request);
    if (choice.kernel != nullptr) {
      step.kernel_name = fmt::format("{} {}", provider->name(), choice.name);
      return choice;
    }
    if (!choice.reason.empty()) {
      step.declined +=
          fmt::format("{}{}: {}", step.declined.empty() ? "" : "; ",
                      provider->name(), choice.reason);
    }
  }
  return {};
}

KernelRequest SegmentBuilder::RequestFor(const Node& node, const OpDef& op) {
  kernel_inputs_.assign(node.inputs.size(), {});
  kernel_outputs_.assign(node.outputs.size(), {});
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const KnownValue& value = Known(node.inputs[i]);
    KernelInput& input = kernel_inputs_[i];
    input.info = value.info.tensor;
    input.is_list = value.info.is_list;
    input.list = value.info.list;
    if (!value.varies) input.constant = value.info.known;
    const int slot = PlaceOf(node.inputs[i]).slot;
    if (slot >= 0) input.layout = Slot(slot).layout;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i]) {
      kernel_outputs_[i] = Known(node.outputs[i]).info.tensor;
    }
  }
  return {.node = OpNode(graph_, node),
          .op = op,
          .inputs = kernel_inputs_,
          .outputs = kernel_outputs_,
          .num_threads = options_.num_threads};
}

KernelChoice SegmentBuilder::ChooseKernel(const Node& node, const OpDef& op,
                                          PlanStep& step) {
  const KernelRequest request = RequestFor(node, op);
  KernelChoice choice = AskProviders(request, step);
  if (choice.kernel != nullptr) return choice;
  choice = MakeReferenceKernel(request);
  if (choice.kernel == nullptr) {
    Throw(ErrorCode::kNotImplemented, "{} has no kernel: reference: {}{}{}",
          Describe(graph_, node), choice.reason,
          step.declined.empty() ? "" : "; ", step.declined);
  }
  step.kernel_name = choice.name;
  return choice;
}

// --- The end of a plan

std::unique_ptr<Plan> SegmentBuilder::Finish(const std::vector<bool>& carried) {
  std::vector<ValueId> kept;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (carried[i] && places_[i].slot >= 0) {
      kept.push_back({static_cast<int32_t>(i)});
    }
  }
  // The next segment reads plain values.
  for (ValueId id : kept) SlotIn(id, Layout::kPlain);
  FinishOutputs();
  std::vector<int> pinned = plan_->output_slots;
  for (ValueId id : kept) pinned.push_back(PlainSlot(id));
  ChooseRecompute(*plan_, choices_, pinned, MostArenaBytes());
  PlaceBuffers(*plan_, pinned);
  FindFirstWrite(*plan_);
  return std::move(plan_);
}

// 0: no limit.
size_t SegmentBuilder::MostArenaBytes() const {
  const size_t limit = options_.budget->memory_limit();
  if (limit == 0) return 0;
  // The plan's constants are among what is held.
  return limit - std::min(options_.budget->held(), limit - 1);
}

void SegmentBuilder::FinishOutputs() {
  for (ValueId output : graph_.outputs()) {
    if (!Known(output).inferred) {
      plan_->output_slots.clear();  // a later segment computes it
      return;
    }
    plan_->output_slots.push_back(Known(output).info.is_list
                                      ? SlotOf(output)
                                      : SlotIn(output, Layout::kPlain));
  }
}

}  // namespace strop
