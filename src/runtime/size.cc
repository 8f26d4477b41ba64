// SPDX-License-Identifier: Apache-2.0
#include "runtime/size.h"

#include <algorithm>
#include <deque>

#include "base/throw.h"
#include "ops/fold.h"
#include "ops/reference_kernel.h"
#include "ops/registry.h"
#include "runtime/control_flow.h"
#include "runtime/place.h"

namespace strop {
namespace {

// Values of at most this many bytes are computed when the plan is made if
// their inputs are known; larger ones only if they do not grow.
constexpr size_t kFoldBytes = 4096;

// Where a tensor without elements lies; its own address may be null.
constexpr std::byte kNoElements{};

struct LayoutCopy {
  Layout layout;
  int slot;
};

// What is known of a graph value while plans are made.
struct ValueState {
  bool inferred = false;
  ValueInfo info;
  const void* address = nullptr;     // where a known value lies
  const void* input_data = nullptr;  // of a graph input
  int input = -1;  // the graph input whose memory this value is, by position
  bool varies = false;  // known for this step only: carried over
  int slot = -1;        // in the plan being made
  std::vector<LayoutCopy> copies;
};

bool Reads(const OpDef& op, size_t input) {
  return !op.shape_inputs.contains(input);
}

}  // namespace

class Sizer::Impl {
 public:
  Impl(const LoweredGraph& lowered, std::span<const Argument> inputs,
       const SizeOptions& options)
      : lowered_(lowered),
        graph_(lowered.graph),
        order_(options.writes_last ? lowered.order_writes_last : lowered.order),
        options_(options),
        states_(lowered.graph.value_count()) {
    STROP_CHECK(inputs.size() == graph_.inputs().size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      DescribeInput(i, inputs[i]);
    }
    for (ValueId id : graph_.initializers()) DescribeInitializer(id);
  }

  std::unique_ptr<Plan> Next(const RandomKey* random) {
    random_ = random;
    plan_ = std::make_unique<Plan>();
    plan_->graph = &graph_;
    for (ValueState& state : states_) {
      state.slot = -1;
      state.copies.clear();
    }
    while (position_ < order_.size()) {
      if (!SizeNode(order_[position_])) break;
      ++position_;
    }
    FinishOutputs();
    PlaceBuffers(*plan_, PinnedSlots());
    FindFirstWrite();
    return std::move(plan_);
  }

  bool done() const { return position_ == order_.size(); }

  void Carry(const Plan& plan, std::byte* base) {
    for (size_t i = 0; i < states_.size(); ++i) {
      ValueState& state = states_[i];
      if (state.slot < 0 || state.address != nullptr || state.info.is_list ||
          state.input >= 0) {
        continue;
      }
      const PlanSlot& slot = plan.slots[PlainSlot(state)];
      if (slot.storage == PlanSlot::Storage::kArena) {
        state.address = base + slot.offset;
      } else if (slot.storage == PlanSlot::Storage::kConstant) {
        state.address = slot.constant;
      } else {
        continue;
      }
      state.varies = true;
      SetKnown(state, state.address);
    }
    CarryInputs();
  }

 private:
  // --- Values

  void DescribeInput(size_t position, const Argument& argument) {
    const ValueId id = graph_.inputs()[position];
    ValueState& state = State(id);
    state.inferred = true;
    state.input = static_cast<int>(position);
    state.info.is_list =
        graph_.value(id).type.kind == ValueType::Kind::kTensorList;
    if (state.info.is_list) {
      for (const Tensor& tensor : argument.list) {
        state.info.list.push_back({tensor.type(), tensor.shape()});
      }
    } else {
      state.info.tensor = {argument.tensor.type(), argument.tensor.shape()};
      state.input_data = argument.tensor.element_count() == 0
                             ? &kNoElements
                             : argument.tensor.data();
    }
  }

  // What the caller gave counts as known only where the next node needs it by
  // value: everything else is left to kernels.
  void CarryInputs() {
    for (ValueId id : NeededByValue(order_[position_])) {
      ValueState& state = State(id);
      if (state.info.known != nullptr) continue;
      const void* data = nullptr;
      if (state.input >= 0 && !state.info.is_list) {
        data =
            State(graph_.inputs()[static_cast<size_t>(state.input)]).input_data;
      }
      if (data == nullptr) {
        Throw(ErrorCode::kNotImplemented,
              "{} needs the value of \"{}\", which cannot be known before it",
              Describe(graph_, graph_.node(order_[position_])),
              graph_.value_name(id));
      }
      state.address = data;
      state.varies = true;
      SetKnown(state, data);
    }
  }

  // What must be known before the node can be sized.
  std::vector<ValueId> NeededByValue(NodeId id) const {
    if (IsControl(id)) return options_.control_flow->Reads(id);
    const Node& node = graph_.node(id);
    const OpDef& op = *lowered_.ops[static_cast<size_t>(id.index)];
    std::vector<ValueId> needed;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && op.value_inputs.contains(i)) {
        needed.push_back(node.inputs[i]);
      }
    }
    return needed;
  }

  bool IsControl(NodeId id) const {
    return options_.control_flow != nullptr && options_.control_flow->Has(id);
  }

  void DescribeInitializer(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.is_input || !value.initializer) return;
    ValueState& state = State(id);
    const Tensor tensor = value.initializer->view();
    state.inferred = true;
    state.info.tensor = {tensor.type(), tensor.shape()};
    state.address = tensor.data();
    SetKnown(state, tensor.data());
  }

  void SetKnown(ValueState& state, const void* data) {
    known_.emplace_back(state.info.tensor.type, state.info.tensor.shape,
                        const_cast<void*>(data));
    state.info.known = &known_.back();
  }

  ValueState& State(ValueId id) {
    return states_[static_cast<size_t>(id.index)];
  }

  int AddSlot(ValueId id, const TensorInfo& info, PlanSlot::Storage storage,
              Layout layout = Layout::kPlain) {
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

  // Throws kOutOfMemory where no machine could hold the value.
  size_t StoredBytes(ValueId id, const TensorInfo& info, Layout layout) const {
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
  int SlotOf(ValueId id) {
    ValueState& state = State(id);
    if (state.slot >= 0) return state.slot;
    if (state.input >= 0) {
      // A graph input, or what an earlier segment made a view of one.
      state.slot = AddSlot(id, state.info.tensor, PlanSlot::Storage::kInput);
      plan_->slots.back().is_list = state.info.is_list;
      plan_->slots.back().input = state.input;
    } else {
      STROP_CHECK(state.info.known != nullptr);
      state.slot = AddSlot(id, state.info.tensor, PlanSlot::Storage::kConstant);
      plan_->slots.back().constant = state.info.known->data();
    }
    return state.slot;
  }

  static size_t PlainSlot(const ValueState& state) {
    for (const LayoutCopy& copy : state.copies) {
      if (copy.layout == Layout::kPlain) return static_cast<size_t>(copy.slot);
    }
    return static_cast<size_t>(state.slot);
  }

  // The slot of the value in `layout`; adds a Reorder step where needed.
  int SlotIn(ValueId id, Layout layout) {
    const int slot = SlotOf(id);
    if (plan_->slots[static_cast<size_t>(slot)].layout == layout) return slot;
    ValueState& state = State(id);
    for (const LayoutCopy& copy : state.copies) {
      if (copy.layout == layout) return copy.slot;
    }
    const int copy = AddReorder(slot, layout);
    state.copies.push_back({layout, copy});
    return copy;
  }

  int AddReorder(int from, Layout layout) {
    const PlanSlot source = plan_->slots[static_cast<size_t>(from)];
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

  // Adds the steps of a node; false if it needs a value not known yet.
  bool SizeNode(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& op = *lowered_.ops[static_cast<size_t>(id.index)];
    if (!ValuesKnown(id, node)) return false;
    if (IsControl(id)) return RunControl(id, node);
    InferNode(node, op);
    if (op.is_view && AddView(node)) return true;
    if (Fold(node, op)) return true;
    AddStep(id, node, op);
    return true;
  }

  bool ValuesKnown(NodeId id, const Node& node) {
    for (ValueId read : graph_.Reads(node)) {
      if (!State(read).inferred) {
        Throw(ErrorCode::kInvalidGraph, "{} reads \"{}\", which has no value",
              Describe(graph_, node), graph_.value_name(read));
      }
    }
    return std::ranges::all_of(NeededByValue(id), [this](ValueId needed) {
      return State(needed).info.known != nullptr;
    });
  }

  // Runs the node now: all that it reads is known. False where it draws
  // random numbers and the step has not begun.
  bool RunControl(NodeId id, const Node& node) {
    ControlFlow& control = *options_.control_flow;
    if (control.IsRandom(id) && random_ == nullptr) return false;
    bool varies = control.IsRandom(id);
    for (ValueId read : control.Reads(id)) {
      varies = varies || State(read).varies;
    }
    SetComputed(
        node,
        control.Run(
            id, [this](ValueId value) { return *State(value).info.known; },
            random_ != nullptr ? *random_ : RandomKey{}),
        varies);
    return true;
  }

  void InferNode(const Node& node, const OpDef& op) {
    infer_inputs_.clear();
    infer_outputs_.clear();
    for (ValueId input : node.inputs) {
      infer_inputs_.push_back(input ? &State(input).info : nullptr);
    }
    for (ValueId output : node.outputs) {
      infer_outputs_.push_back(output ? &State(output).info : nullptr);
    }
    InferContext context(OpNode(graph_, node), infer_inputs_, infer_outputs_);
    Infer(op, context);
    for (ValueId output : node.outputs) {
      if (output) State(output).inferred = true;
    }
  }

  // An op that computes nothing: the output is the input's memory. False
  // where the input is a list, which is bound otherwise.
  bool AddView(const Node& node) {
    ValueState& from = State(node.inputs[0]);
    ValueState& to = State(node.outputs[0]);
    if (from.info.is_list) return false;
    if (from.info.known != nullptr) {
      to.address = from.info.known->data();
      to.varies = from.varies;
      SetKnown(to, to.address);
      return true;
    }
    const int source = SlotIn(node.inputs[0], Layout::kPlain);
    to.slot = AddSlot(node.outputs[0], to.info.tensor,
                      plan_->slots[static_cast<size_t>(source)].storage);
    plan_->slots.back().input = plan_->slots[static_cast<size_t>(source)].input;
    to.input = plan_->slots.back().input;
    plan_->slots.back().shares = source;
    return true;
  }

  // Computes the outputs now if everything they depend on is known.
  bool Fold(const Node& node, const OpDef& op) {
    if (op.is_random || !op.mutates.empty() || op.reference.run == nullptr) {
      return false;
    }
    size_t bytes_in = 0, bytes_out = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      const ValueInfo& info = State(node.inputs[i]).info;
      if (info.is_list) return false;
      if (info.known == nullptr) {
        if (Reads(op, i)) return false;
        continue;
      }
      // Real work on data of this step is left to kernels.
      if (State(node.inputs[i]).varies &&
          info.known->byte_count() > kFoldBytes) {
        return false;
      }
      bytes_in += info.known->byte_count();
    }
    for (ValueId output : node.outputs) {
      if (!output) continue;
      const TensorInfo& info = State(output).info.tensor;
      if (State(output).info.is_list) return false;
      bytes_out += StoredBytes(output, info, Layout::kPlain);
    }
    if (bytes_out > std::max(kFoldBytes, bytes_in)) return false;
    return RunNow(node, op);
  }

  // False where the op has no plain kernel for the type.
  bool RunNow(const Node& node, const OpDef& op) {
    std::vector<Tensor> inputs(node.inputs.size());
    bool varies = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      const ValueState& state = State(node.inputs[i]);
      inputs[i] = state.info.known != nullptr
                      ? *state.info.known
                      : Tensor(state.info.tensor.type, state.info.tensor.shape,
                               nullptr);
      varies = varies || state.varies;
    }
    auto results = RunReferenceNow(RequestFor(node, op), inputs);
    if (!results) return false;
    SetComputed(node, std::move(*results), varies);
    return true;
  }

  // The outputs of a node that has run already.
  void SetComputed(const Node& node,
                   std::vector<std::unique_ptr<OwnedTensor>> results,
                   bool varies) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i]) continue;
      const Tensor& value = results[i]->view();
      ValueState& state = State(node.outputs[i]);
      state.inferred = true;
      state.info.tensor = {value.type(), value.shape()};
      state.address = value.data();
      state.varies = varies;
      SetKnown(state, state.address);
      plan_->constant_bytes += value.byte_count();
      plan_->constants.push_back(std::move(results[i]));
    }
  }

  void AddStep(NodeId id, const Node& node, const OpDef& op) {
    PlanStep step;
    step.node = &node;
    step.op = &op;
    step.random_node = static_cast<uint32_t>(id.index);
    step.writes_inputs = lowered_.writes_inputs[static_cast<size_t>(id.index)];
    KernelChoice choice = ChooseKernel(node, op, step);
    step.scratch_bytes = choice.scratch_bytes;
    step.flops = choice.flops;
    step.kernel = std::move(choice.kernel);

    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!input) {
        step.inputs.push_back(-1);
      } else if (State(input).info.is_list || !Reads(op, i)) {
        step.inputs.push_back(SlotForShape(input));
      } else {
        step.inputs.push_back(SlotIn(input, i < choice.input_layouts.size()
                                                ? choice.input_layouts[i]
                                                : Layout::kPlain));
      }
    }
    CheckWrites(node, op, step);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      step.outputs.push_back(node.outputs[i]
                                 ? AddOutput(node, op, i, step,
                                             i < choice.output_layouts.size()
                                                 ? choice.output_layouts[i]
                                                 : Layout::kPlain)
                                 : -1);
    }
    plan_->steps.push_back(std::move(step));
  }

  // A slot for a value of which only the shape is looked at.
  int SlotForShape(ValueId id) {
    ValueState& state = State(id);
    if (state.slot >= 0 || state.info.known != nullptr ||
        graph_.value(id).is_input) {
      return SlotOf(id);
    }
    return AddSlot(id, state.info.tensor, PlanSlot::Storage::kNone);
  }

  int AddOutput(const Node& node, const OpDef& op, size_t i,
                const PlanStep& step, Layout layout) {
    ValueState& state = State(node.outputs[i]);
    for (const Alias& alias : op.aliases) {
      if (alias.output != static_cast<int>(i)) continue;
      if (static_cast<size_t>(alias.input) >= step.inputs.size() ||
          step.inputs[static_cast<size_t>(alias.input)] < 0) {
        continue;
      }
      const int source = step.inputs[static_cast<size_t>(alias.input)];
      const PlanSlot from = plan_->slots[static_cast<size_t>(source)];
      state.slot =
          AddSlot(node.outputs[i], state.info.tensor, from.storage, layout);
      PlanSlot& slot = plan_->slots.back();
      slot.input = from.input;
      state.input = from.input;
      slot.is_list = from.is_list;
      slot.constant = from.constant;
      slot.shares = source;
      return state.slot;
    }
    state.slot = AddSlot(node.outputs[i], state.info.tensor,
                         PlanSlot::Storage::kArena, layout);
    return state.slot;
  }

  void CheckWrites(const Node& node, const OpDef& op, const PlanStep& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!op.mutates.contains(i) || step.inputs[i] < 0) continue;
      if (plan_->slots[static_cast<size_t>(step.inputs[i])].storage ==
          PlanSlot::Storage::kConstant) {
        Throw(ErrorCode::kInvalidGraph,
              "{} writes into \"{}\", which is a constant",
              Describe(graph_, node), graph_.value_name(node.inputs[i]));
      }
    }
  }

  // --- Kernels

  KernelChoice AskProviders(const KernelRequest& request, PlanStep& step) {
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

  // Holds until the next call.
  KernelRequest RequestFor(const Node& node, const OpDef& op) {
    kernel_inputs_.assign(node.inputs.size(), {});
    kernel_outputs_.assign(node.outputs.size(), {});
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      const ValueState& state = State(node.inputs[i]);
      KernelInput& input = kernel_inputs_[i];
      input.info = state.info.tensor;
      input.is_list = state.info.is_list;
      input.list = state.info.list;
      if (!state.varies) input.constant = state.info.known;
      if (state.slot >= 0) {
        input.layout = plan_->slots[static_cast<size_t>(state.slot)].layout;
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) {
        kernel_outputs_[i] = State(node.outputs[i]).info.tensor;
      }
    }
    return {.node = OpNode(graph_, node),
            .op = op,
            .inputs = kernel_inputs_,
            .outputs = kernel_outputs_,
            .num_threads = options_.num_threads};
  }

  KernelChoice ChooseKernel(const Node& node, const OpDef& op, PlanStep& step) {
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

  void FinishOutputs() {
    if (!done()) {
      // The next segment reads plain values.
      for (size_t i = 0; i < states_.size(); ++i) {
        const ValueId id = {static_cast<int32_t>(i)};
        if (states_[i].slot >= 0 && IsCarried(id)) {
          SlotIn(id, Layout::kPlain);
        }
      }
    }
    for (ValueId output : graph_.outputs()) {
      if (!State(output).inferred) {
        plan_->output_slots.clear();  // a later segment computes it
        return;
      }
      plan_->output_slots.push_back(State(output).info.is_list
                                        ? SlotOf(output)
                                        : SlotIn(output, Layout::kPlain));
    }
  }

  // Whether a node of a later segment, or the caller, reads the value.
  bool IsCarried(ValueId id) {
    if (carried_position_ != position_) {
      carried_.assign(states_.size(), false);
      for (size_t p = position_; p < order_.size(); ++p) {
        for (ValueId read : graph_.Reads(graph_.node(order_[p]))) {
          carried_[static_cast<size_t>(read.index)] = true;
        }
      }
      for (ValueId output : graph_.outputs()) {
        carried_[static_cast<size_t>(output.index)] = true;
      }
      carried_position_ = position_;
    }
    return carried_[static_cast<size_t>(id.index)];
  }

  std::vector<int> PinnedSlots() {
    std::vector<int> pinned = plan_->output_slots;
    if (done()) return pinned;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].slot >= 0 && IsCarried({static_cast<int32_t>(i)})) {
        pinned.push_back(static_cast<int>(PlainSlot(states_[i])));
      }
    }
    return pinned;
  }

  void FindFirstWrite() {
    plan_->first_write = plan_->steps.size();
    for (size_t i = plan_->steps.size(); i-- > 0;) {
      if (plan_->steps[i].writes_inputs) plan_->first_write = i;
    }
  }

  const LoweredGraph& lowered_;
  const Graph& graph_;
  const std::vector<NodeId>& order_;
  SizeOptions options_;
  std::vector<ValueState> states_;
  std::deque<Tensor> known_;
  size_t position_ = 0;  // in order_
  const RandomKey* random_ = nullptr;
  std::unique_ptr<Plan> plan_;
  std::vector<const ValueInfo*> infer_inputs_;
  std::vector<ValueInfo*> infer_outputs_;
  std::vector<KernelInput> kernel_inputs_;
  std::vector<TensorInfo> kernel_outputs_;
  std::vector<bool> carried_;
  size_t carried_position_ = static_cast<size_t>(-1);
};

Sizer::Sizer(const LoweredGraph& lowered, std::span<const Argument> inputs,
             const SizeOptions& options)
    : impl_(std::make_unique<Impl>(lowered, inputs, options)) {}
Sizer::~Sizer() = default;

std::unique_ptr<Plan> Sizer::Next(const RandomKey* random) {
  return impl_->Next(random);
}
bool Sizer::done() const { return impl_->done(); }
void Sizer::Carry(const Plan& plan, std::byte* base) {
  impl_->Carry(plan, base);
}

}  // namespace strop
