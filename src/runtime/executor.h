// SPDX-License-Identifier: Apache-2.0
//
// Runs a graph. An executor keeps a few plans, one for each tuple of input
// shapes (and of constants), and runs the fitting one as a loop over its
// kernels.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/arena.h"
#include "runtime/constant_inputs.h"
#include "runtime/lower.h"
#include "runtime/plan.h"
#include "runtime/profiler.h"
#include "runtime/step_budget.h"
#include "strop/execution_provider.h"
#include "strop/random.h"

namespace strop {

struct ExecutorOptions {
  std::vector<std::shared_ptr<ExecutionProvider>> providers = {};
  ThreadPool* thread_pool = nullptr;
  int num_threads = 1;
  int max_plans = 4;
  size_t memory_limit_bytes = 0;  // of a step; 0: no limit
  Profiler* profiler = nullptr;   // null: nothing is recorded
  // Before each run, so that a kernel that reads what nobody wrote shows.
  bool fill_memory_with_nan = false;
  // Of the step that a sub-graph runs in; null: the graph has one of its own.
  std::shared_ptr<StepBudget> budget = nullptr;
};

class Executor {
 public:
  // `arena` may be shared by executors that run one after the other.
  Executor(LoweredGraph lowered, std::shared_ptr<Arena> arena,
           ExecutorOptions options);
  ~Executor();

  const Graph& graph() const;

  // Inputs whose values are known when plans are made, until the next call.
  // Run is to be given the same values.
  void SetConstants(ConstantInputs constants);

  // Runs the graph on `inputs`, one Argument for each graph input in order.
  // `before_writes` (if not empty) is called once everything that can fail
  // on data has run and before the first write into an input; outputs that
  // do not depend on writes can be read then. An exception before or from it
  // leaves every input as it was. A plan that was made before allocates
  // nothing.
  void Run(std::span<const Argument> inputs, const RandomKey& random,
           const std::function<void()>& before_writes = {});

  // Output i of the running or last Run. The memory is the arena's: it is
  // valid until the next Run of an executor that shares the arena.
  Tensor output(size_t i) const;

  // Gives back what the last Run holds; its outputs are gone.
  void Release();

  // Makes the plan for `inputs`, if there is none yet, without running it.
  // For a graph with data-dependent shapes: its first segment.
  const Plan& Prepare(std::span<const Argument> inputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
