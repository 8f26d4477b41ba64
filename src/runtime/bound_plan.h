// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/plan.h"
#include "runtime/profiler.h"

namespace strop {

// A plan with the tensors that its kernels see. Pointers into the arena and
// to inputs are patched in place; running allocates nothing.
class BoundPlan {
 public:
  BoundPlan(std::unique_ptr<Plan> plan, ThreadPool* pool, int num_threads);

  const Plan& plan() const { return *plan_; }

  // Points everything at `base` and `inputs`; cheap where nothing moved.
  void Bind(std::byte* base, std::span<const Argument> inputs);

  // Runs steps [begin, end) with the random stream of this train step.
  void Run(size_t begin, size_t end, const RandomKey& random,
           Profiler* profiler);

  const Argument& slot(int index) const {
    return arguments_[static_cast<size_t>(index)];
  }

 private:
  void BindArena(std::byte* base);

  std::unique_ptr<Plan> plan_;
  std::vector<Argument> arguments_;        // by slot
  std::vector<const Argument*> pointers_;  // all steps' inputs and outputs
  std::vector<KernelContext> contexts_;    // by step
  struct InputSlot {
    int slot;
    int input;
  };
  std::vector<InputSlot> input_slots_;
  std::byte* base_ = nullptr;
};

}  // namespace strop
