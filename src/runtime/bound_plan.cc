// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound_plan.h"

namespace strop {

BoundPlan::BoundPlan(std::unique_ptr<Plan> plan, ThreadPool* pool,
                     int num_threads)
    : plan_(std::move(plan)), arguments_(plan_->slots.size()) {
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    const PlanSlot& slot = plan_->slots[i];
    arguments_[i].tensor = Tensor(slot.info.type, slot.info.shape,
                                  const_cast<void*>(slot.constant));
    if (slot.storage == PlanSlot::Storage::kInput) {
      input_slots_.push_back({static_cast<int>(i), slot.input});
    }
  }
  size_t count = 0;
  for (const PlanStep& step : plan_->steps) {
    count += step.inputs.size() + step.outputs.size();
  }
  pointers_.reserve(count);  // contexts keep spans into it
  contexts_.reserve(plan_->steps.size());
  auto point_at = [&](const std::vector<int>& slots) {
    const size_t first = pointers_.size();
    for (int slot : slots) {
      pointers_.push_back(slot < 0 ? nullptr
                                   : &arguments_[static_cast<size_t>(slot)]);
    }
    return std::span<const Argument* const>(pointers_.data() + first,
                                            slots.size());
  };
  for (const PlanStep& step : plan_->steps) {
    const auto inputs = point_at(step.inputs);
    const auto outputs = point_at(step.outputs);
    contexts_.emplace_back(OpNode(*plan_->graph, *step.node), inputs, outputs);
    contexts_.back().set_threads(pool, num_threads);
  }
}

void BoundPlan::Bind(std::byte* base, std::span<const Argument> inputs) {
  if (base != base_) BindArena(base);
  for (const InputSlot& bound : input_slots_) {
    const Argument& input = inputs[static_cast<size_t>(bound.input)];
    Argument& argument = arguments_[static_cast<size_t>(bound.slot)];
    argument.tensor.set_data(input.tensor.data());
    argument.list = input.list;
  }
}

void BoundPlan::BindArena(std::byte* base) {
  for (size_t i = 0; i < plan_->slots.size(); ++i) {
    const PlanSlot& slot = plan_->slots[i];
    if (slot.storage == PlanSlot::Storage::kArena) {
      arguments_[i].tensor.set_data(base + slot.offset);
    }
  }
  for (size_t i = 0; i < plan_->steps.size(); ++i) {
    contexts_[i].set_scratch(base + plan_->steps[i].scratch_offset);
  }
  base_ = base;
}

void BoundPlan::Run(size_t begin, size_t end, const RandomKey& random,
                    Profiler* profiler) {
  for (size_t i = begin; i < end; ++i) {
    const PlanStep& step = plan_->steps[i];
    if (step.op->is_random) {
      RandomKey key = random;
      key.node = step.random_node;
      contexts_[i].set_random(key);
    }
    if (profiler == nullptr) {
      step.kernel->Run(contexts_[i]);
      continue;
    }
    const auto start = Profiler::Clock::now();
    step.kernel->Run(contexts_[i]);
    profiler->Record(*plan_, step, start, Profiler::Clock::now());
  }
}

}  // namespace strop
