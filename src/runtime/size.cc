// SPDX-License-Identifier: Apache-2.0
#include "runtime/size.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/throw.h"
#include "ops/fold.h"
#include "ops/registry.h"
#include "runtime/constant_inputs.h"
#include "runtime/control_flow.h"
#include "runtime/segment.h"
#include "runtime/step_budget.h"

namespace strop {
namespace {

// Where a tensor without elements lies; its own address may be null.
constexpr std::byte kNoElements{};

}  // namespace

class Sizer::Impl {
 public:
  Impl(const LoweredGraph& lowered, std::span<const Argument> inputs,
       const SizeOptions& options)
      : lowered_(lowered),
        graph_(lowered.graph),
        order_(options.writes_last ? lowered.order_writes_last : lowered.order),
        options_(options),
        values_(lowered.graph.value_count()),
        builder_(lowered, values_, options_) {
    STROP_CHECK(inputs.size() == graph_.inputs().size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      DescribeInput(i, inputs[i]);
    }
    for (ValueId id : graph_.initializers()) DescribeInitializer(id);
  }

  std::unique_ptr<Plan> Next(const RandomKey* random) {
    random_ = random;
    HeldBytes constants(*options_.budget);  // until the plan is bound
    constants_ = &constants;
    builder_.Begin();
    while (position_ < order_.size()) {
      if (!SizeNode(order_[position_])) break;
      ++position_;
    }
    return builder_.Finish(done() ? std::vector<bool>{} : ReadLater());
  }

  bool done() const { return position_ == order_.size(); }

  void Carry(const Plan& plan, std::byte* base) {
    for (size_t i = 0; i < values_.size(); ++i) {
      KnownValue& value = values_[i];
      const int index = builder_.PlainSlot({static_cast<int32_t>(i)});
      if (index < 0 || value.info.known != nullptr || value.info.is_list ||
          value.input >= 0) {
        continue;
      }
      const PlanSlot& slot = plan.slots[static_cast<size_t>(index)];
      if (slot.storage == PlanSlot::Storage::kArena) {
        SetKnown(value, base + slot.offset);
      } else if (slot.storage == PlanSlot::Storage::kConstant) {
        SetKnown(value, slot.constant);
      } else {
        continue;
      }
      value.varies = true;
    }
    CarryInputs();
  }

 private:
  // --- Values

  void DescribeInput(size_t position, const Argument& argument) {
    const ValueId id = graph_.inputs()[position];
    KnownValue& value = ValueOf(id);
    value.inferred = true;
    value.input = static_cast<int>(position);
    value.info.is_list =
        graph_.value(id).type.kind == ValueType::Kind::kTensorList;
    input_data_.push_back(nullptr);
    if (value.info.is_list) {
      for (const Tensor& tensor : argument.list) {
        value.info.list.push_back({tensor.type(), tensor.shape()});
      }
    } else {
      value.info.tensor = {argument.tensor.type(), argument.tensor.shape()};
      input_data_.back() = argument.tensor.element_count() == 0
                               ? &kNoElements
                               : argument.tensor.data();
    }
    const Tensor* constant = options_.constants == nullptr
                                 ? nullptr
                                 : options_.constants->Find(position);
    if (constant != nullptr) {
      value.input = -1;
      SetKnown(value, constant->data());
    }
  }

  // What the caller gave counts as known only where the next node needs it by
  // value: everything else is left to kernels.
  void CarryInputs() {
    for (ValueId id : NeededByValue(order_[position_])) {
      KnownValue& value = ValueOf(id);
      if (value.info.known != nullptr) continue;
      const void* data = nullptr;
      if (value.input >= 0 && !value.info.is_list) {
        data = input_data_[static_cast<size_t>(value.input)];
      }
      if (data == nullptr) {
        Throw(ErrorCode::kNotImplemented,
              "{} needs the value of \"{}\", which cannot be known before it",
              Describe(graph_, graph_.node(order_[position_])),
              graph_.value_name(id));
      }
      value.varies = true;
      SetKnown(value, data);
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
    if (graph_.value(id).is_input || !graph_.value(id).initializer) return;
    KnownValue& value = ValueOf(id);
    const Tensor tensor = graph_.value(id).initializer->view();
    value.inferred = true;
    value.info.tensor = {tensor.type(), tensor.shape()};
    SetKnown(value, tensor.data());
  }

  void SetKnown(KnownValue& value, const void* data) {
    known_.emplace_back(value.info.tensor.type, value.info.tensor.shape,
                        const_cast<void*>(data));
    value.info.known = &known_.back();
  }

  KnownValue& ValueOf(ValueId id) {
    return values_[static_cast<size_t>(id.index)];
  }

  // By value: whether a node of a later segment, or the caller, reads it.
  std::vector<bool> ReadLater() const {
    std::vector<bool> read_later(values_.size(), false);
    for (size_t p = position_; p < order_.size(); ++p) {
      for (ValueId read : graph_.Reads(graph_.node(order_[p]))) {
        read_later[static_cast<size_t>(read.index)] = true;
      }
    }
    for (ValueId output : graph_.outputs()) {
      read_later[static_cast<size_t>(output.index)] = true;
    }
    return read_later;
  }

  // --- Nodes

  // Adds the steps of a node; false if it needs a value not known yet.
  bool SizeNode(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& op = *lowered_.ops[static_cast<size_t>(id.index)];
    if (!ValuesKnown(id, node)) return false;
    if (IsControl(id)) return RunControl(id, node);
    InferNode(node, op);
    if (op.is_view && AddView(node, op)) return true;
    if (Fold(node, op)) return true;
    builder_.AddStep(id);
    return true;
  }

  bool ValuesKnown(NodeId id, const Node& node) {
    for (ValueId read : graph_.Reads(node)) {
      if (!ValueOf(read).inferred) {
        Throw(ErrorCode::kInvalidGraph, "{} reads \"{}\", which has no value",
              Describe(graph_, node), graph_.value_name(read));
      }
    }
    return std::ranges::all_of(NeededByValue(id), [this](ValueId needed) {
      return ValueOf(needed).info.known != nullptr;
    });
  }

  // Runs the node now: all that it reads is known. False where it has to wait
  // for the step to begin.
  bool RunControl(NodeId id, const Node& node) {
    ControlFlow& control = *options_.control_flow;
    bool varies = control.IsRandom(id);
    for (ValueId read : control.Reads(id)) {
      varies = varies || ValueOf(read).varies;
    }
    const auto value_of = [this](ValueId value) -> const KnownValue& {
      return ValueOf(value);
    };
    auto results = random_ == nullptr
                       ? control.Fold(id, value_of)
                       : std::optional(control.Run(id, value_of, *random_));
    if (!results) return false;
    SetComputed(node, std::move(*results), varies);
    return true;
  }

  void InferNode(const Node& node, const OpDef& op) {
    infer_inputs_.clear();
    infer_outputs_.clear();
    for (ValueId input : node.inputs) {
      infer_inputs_.push_back(input ? &ValueOf(input).info : nullptr);
    }
    for (ValueId output : node.outputs) {
      infer_outputs_.push_back(output ? &ValueOf(output).info : nullptr);
    }
    InferContext context(OpNode(graph_, node), infer_inputs_, infer_outputs_);
    Infer(op, context);
    for (ValueId output : node.outputs) {
      if (output) ValueOf(output).inferred = true;
    }
  }

  // The view of a known value is known. False where the input is a list,
  // which is bound otherwise.
  bool AddView(const Node& node, const OpDef& op) {
    const KnownValue& from = ValueOf(node.inputs[0]);
    if (from.info.is_list) return false;
    const bool is_choice = op.name == "Recomputed" && op.domain == kInternal;
    if (is_choice && ValueOf(node.inputs[1]).info.known == nullptr) {
      builder_.AddRecomputed(node);
    } else if (from.info.known == nullptr) {
      builder_.AddView(node);
    }
    if (from.info.known == nullptr) return true;
    KnownValue& to = ValueOf(node.outputs[0]);
    to.varies = from.varies;
    SetKnown(to, from.info.known->data());
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
      const KnownValue& value = ValueOf(node.inputs[i]);
      if (value.info.is_list) return false;
      if (value.info.known == nullptr) {
        if (ReadsElements(op, i)) return false;
        continue;
      }
      // Real work on data of this step is left to kernels.
      const size_t bytes = value.info.known->byte_count();
      if (value.varies && bytes > kFoldBytes) return false;
      // What is read twice counts once: Concat(x, x) grows.
      const auto before = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::find(node.inputs.begin(), before, node.inputs[i]) == before)
        bytes_in += bytes;
    }
    for (ValueId output : node.outputs) {
      if (!output) continue;
      const ValueInfo& info = ValueOf(output).info;
      if (info.is_list) return false;
      bytes_out += builder_.StoredBytes(output, info.tensor, Layout::kPlain);
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
      const KnownValue& value = ValueOf(node.inputs[i]);
      inputs[i] = value.info.known != nullptr
                      ? *value.info.known
                      : Tensor(value.info.tensor.type, value.info.tensor.shape,
                               nullptr);
      varies = varies || value.varies;
    }
    auto results = RunReferenceNow(builder_.RequestFor(node, op), inputs);
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
      const Tensor& tensor = results[i]->view();
      KnownValue& value = ValueOf(node.outputs[i]);
      value.inferred = true;
      value.info.tensor = {tensor.type(), tensor.shape()};
      value.varies = varies;
      SetKnown(value, tensor.data());
      constants_->Add(tensor.byte_count());
    }
    builder_.AddConstants(std::move(results));
  }

  const LoweredGraph& lowered_;
  const Graph& graph_;
  const std::vector<NodeId>& order_;
  SizeOptions options_;
  std::vector<KnownValue> values_;
  SegmentBuilder builder_;
  std::deque<Tensor> known_;
  std::vector<const void*> input_data_;  // by graph input
  size_t position_ = 0;                  // in order_
  const RandomKey* random_ = nullptr;
  HeldBytes* constants_ = nullptr;  // what the plan in the making holds
  std::vector<const ValueInfo*> infer_inputs_;
  std::vector<ValueInfo*> infer_outputs_;
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
