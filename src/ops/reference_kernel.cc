// SPDX-License-Identifier: Apache-2.0
#include "ops/reference_kernel.h"

#include <algorithm>

#include "base/round.h"
#include "ops/number.h"

namespace strop {
namespace {

constexpr size_t kAlignment = 64;

using ops::AllFloats;
using ops::IsHalf;

class ReferenceKernelRunner final : public Kernel {
 public:
  explicit ReferenceKernelRunner(ReferenceKernel::Run run) : run_(run) {}
  void Run(const KernelContext& context) override { run_(context); }

 private:
  ReferenceKernel::Run run_;
};

// Where there is no element to compute, as dimensions beside a 0 may be huge.
class NothingToDo final : public Kernel {
 public:
  void Run(const KernelContext&) override {}
};

bool HasNothingToDo(const KernelRequest& request) {
  return request.op.mutates.empty() && !request.outputs.empty() &&
         std::ranges::none_of(
             request.inputs,
             [](const KernelInput& input) { return input.is_list; }) &&
         std::ranges::all_of(request.outputs, [](const TensorInfo& output) {
           return output.type == DataType::kUndefined ||
                  output.shape.element_count() == 0;
         });
}

void Convert(const Tensor& from, const Tensor& to) {
  DispatchType(AllFloats{}, from.type(), [&]<class From>() {
    DispatchType(AllFloats{}, to.type(), [&]<class To>() {
      const auto x = from.values<From>();
      const auto y = to.values<To>();
      for (size_t i = 0; i < y.size(); ++i) {
        y[i] = ops::FromDouble<To>(ops::ToDouble(x[i]));
      }
    });
  });
}

// The type that a kernel sees in place of `type`, where the widest float is
// `widest`. An op that mixes floats sees one type of them only.
DataType WideType(const OpDef& op, DataType type, DataType widest) {
  if (op.mixes_floats && ops::IsFloatingPoint(type)) return widest;
  return IsHalf(type) ? DataType::kFloat32 : type;
}

// Runs the kernel for float32 or float64 on such copies of the narrower
// tensors, which lie in its scratch.
class WideningKernel final : public Kernel {
 public:
  WideningKernel(const KernelRequest& request, DataType widest)
      : op_(request.op),
        widest_(widest),
        inputs_(request.inputs.size()),
        outputs_(request.outputs.size()) {
    std::vector<KernelInput> wide_inputs(request.inputs.begin(),
                                         request.inputs.end());
    std::vector<TensorInfo> wide_outputs(request.outputs.begin(),
                                         request.outputs.end());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      AddCopy(wide_inputs[i].info, inputs_[i]);
      wide_inputs[i].constant = nullptr;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      AddCopy(wide_outputs[i], outputs_[i]);
    }
    for (const Alias& alias : op_.aliases) {
      if (alias.output < 0) continue;
      const auto output = static_cast<size_t>(alias.output);
      const auto input = static_cast<size_t>(alias.input);
      if (output < outputs_.size() && input < inputs_.size()) {
        outputs_[output].offset = inputs_[input].offset;
      }
    }
    if (op_.reference.scratch_bytes != nullptr) {
      inner_bytes_ =
          op_.reference.scratch_bytes({.node = request.node,
                                       .op = request.op,
                                       .inputs = wide_inputs,
                                       .outputs = wide_outputs,
                                       .num_threads = request.num_threads});
    }
  }

  size_t scratch_bytes() const { return copies_bytes_ + inner_bytes_; }

  void Run(const KernelContext& context) override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!context.has_input(i)) continue;
      inputs_[i].argument.tensor = context.input(i);
      inputs_[i].argument.list = context.list(i);
      if (!inputs_[i].is_wide) continue;
      Place(context, context.input(i), inputs_[i]);
      Convert(context.input(i), inputs_[i].argument.tensor);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!context.has_output(i)) continue;
      outputs_[i].argument.tensor = context.output(i);
      if (outputs_[i].is_wide) Place(context, context.output(i), outputs_[i]);
    }
    op_.reference.run(context.With(PointersTo(context, /*are_inputs=*/true),
                                   PointersTo(context, /*are_inputs=*/false),
                                   context.scratch() + copies_bytes_));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (context.has_output(i) && outputs_[i].is_wide) {
        Convert(outputs_[i].argument.tensor, context.output(i));
      }
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (context.has_input(i) && inputs_[i].is_wide &&
          op_.mutates.contains(i)) {
        Convert(inputs_[i].argument.tensor, context.input(i));
      }
    }
  }

 private:
  struct Slot {
    bool is_wide = false;  // a copy
    DataType type = DataType::kUndefined;
    size_t offset = 0;
    Argument argument;  // of the current run
  };

  void AddCopy(TensorInfo& info, Slot& slot) {
    pointers_.push_back(nullptr);
    slot.type = WideType(op_, info.type, widest_);
    if (slot.type == info.type) return;
    info.type = slot.type;
    slot.is_wide = true;
    slot.offset = copies_bytes_;
    copies_bytes_ += RoundUp(static_cast<size_t>(info.shape.element_count()) *
                                 DataTypeSize(slot.type),
                             kAlignment);
  }

  static void Place(const KernelContext& context, const Tensor& narrow,
                    Slot& slot) {
    slot.argument.tensor =
        Tensor(slot.type, narrow.shape(), context.scratch() + slot.offset);
  }

  std::span<const Argument* const> PointersTo(const KernelContext& context,
                                              bool are_inputs) {
    const std::vector<Slot>& slots = are_inputs ? inputs_ : outputs_;
    const Argument** first =
        pointers_.data() + (are_inputs ? 0 : inputs_.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const bool there =
          are_inputs ? context.has_input(i) : context.has_output(i);
      first[i] = there ? &slots[i].argument : nullptr;
    }
    return {first, slots.size()};
  }

  const OpDef& op_;
  const DataType widest_;
  std::vector<Slot> inputs_, outputs_;
  std::vector<const Argument*> pointers_;  // inputs, then outputs
  size_t copies_bytes_ = 0, inner_bytes_ = 0;
};

// The element type that selects the kernel's instance.
DataType SelectingType(const KernelRequest& request) {
  const int position = request.op.reference.type_input;
  if (position < 0) {
    return request.has_output(0) ? request.outputs[0].type
                                 : DataType::kUndefined;
  }
  const auto i = static_cast<size_t>(position);
  if (!request.has_input(i)) return DataType::kUndefined;
  const KernelInput& input = request.inputs[i];
  return input.is_list && !input.list.empty() ? input.list[0].type
                                              : input.info.type;
}

template <class F>
void ForEachType(const KernelRequest& request, F&& see) {
  for (const KernelInput& input : request.inputs) {
    if (!input.is_list) see(input.info.type);
  }
  for (const TensorInfo& output : request.outputs) see(output.type);
}

// float64 if the node has it, else float32.
DataType WidestFloat(const KernelRequest& request) {
  DataType widest = DataType::kFloat32;
  ForEachType(request, [&](DataType type) {
    if (type == DataType::kFloat64) widest = type;
  });
  return widest;
}

bool MixesFloats(const KernelRequest& request, DataType widest) {
  bool mixes = false;
  ForEachType(request, [&](DataType type) {
    mixes |= ops::IsFloatingPoint(type) && type != widest;
  });
  return request.op.mixes_floats && mixes;
}

KernelChoice MakeWideningKernel(const KernelRequest& request, DataType widest) {
  KernelChoice choice;
  auto kernel = std::make_unique<WideningKernel>(request, widest);
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.name = "reference in " + DataTypeName(widest);
  return choice;
}

}  // namespace

KernelChoice MakeReferenceKernel(const KernelRequest& request) {
  const ReferenceKernel& reference = request.op.reference;
  if (reference.run == nullptr) {
    return KernelChoice::Decline("the op has no plain kernel");
  }
  KernelChoice choice;
  choice.name = "reference";
  const DataType type = SelectingType(request);
  if (HasNothingToDo(request)) {
    choice.kernel = std::make_unique<NothingToDo>();
    return choice;
  }
  const auto supports = [&](DataType t) {
    return reference.supports == nullptr || reference.supports(t);
  };
  const DataType widest = WidestFloat(request);
  if (MixesFloats(request, widest) &&
      supports(WideType(request.op, type, widest))) {
    return MakeWideningKernel(request, widest);
  }
  if (supports(type)) {
    choice.kernel = std::make_unique<ReferenceKernelRunner>(reference.run);
    if (reference.scratch_bytes != nullptr) {
      choice.scratch_bytes = reference.scratch_bytes(request);
    }
    return choice;
  }
  const bool has_list = std::ranges::any_of(
      request.inputs, [](const KernelInput& input) { return input.is_list; });
  if (IsHalf(type) && !has_list && supports(DataType::kFloat32)) {
    return MakeWideningKernel(request, DataType::kFloat32);
  }
  return KernelChoice::Decline("element type " + DataTypeName(type) +
                               " is not supported");
}

}  // namespace strop
