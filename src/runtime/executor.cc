// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>

#include "base/throw.h"
#include "runtime/bound_plan.h"
#include "runtime/control_flow.h"
#include "runtime/size.h"

namespace strop {
namespace {

ExecutorOptions WithBudget(ExecutorOptions options, const Graph& graph) {
  if (options.budget == nullptr) {
    options.budget =
        std::make_shared<StepBudget>(graph.name, options.memory_limit_bytes);
  }
  return options;
}

}  // namespace

class Executor::Impl {
 public:
  Impl(LoweredGraph lowered, std::shared_ptr<Arena> arena,
       ExecutorOptions options)
      : lowered_(std::move(lowered)),
        arena_(std::move(arena)),
        options_(WithBudget(std::move(options), lowered_.graph)),
        held_(*options_.budget) {
    for (ValueId id : lowered_.graph.inputs()) {
      is_list_.push_back(lowered_.graph.value(id).type.kind ==
                         ValueType::Kind::kTensorList);
    }
    if (!lowered_.bodies.empty()) {
      control_flow_ = std::make_unique<ControlFlow>(lowered_, options_);
    }
  }

  const Graph& graph() const { return lowered_.graph; }

  void SetConstants(ConstantInputs constants) {
    if (*constants_ == constants) return;
    for (const auto& entry : plans_) {
      if (*entry->constants == constants) {
        constants_ = entry->constants;
        return;
      }
    }
    constants_ = std::make_shared<const ConstantInputs>(std::move(constants));
  }

  // Memory that is not to be had is asked for by somebody: the error names
  // the largest value.
  void ReserveFor(Arena& arena, const Plan& plan) const {
    try {
      arena.Reserve(std::max<size_t>(plan.arena_bytes, 1));
      if (options_.fill_memory_with_nan) arena.FillWithNan();
    } catch (const Error& error) {
      const auto largest = std::ranges::max_element(
          plan.slots, {}, [](const PlanSlot& slot) { return slot.bytes; });
      if (largest == plan.slots.end() || !largest->value) throw;
      const Graph& graph = lowered_.graph;
      const NodeId producer = graph.value(largest->value).producer;
      Throw(error.code(), "{}\"{}\" is {} of shape {}: {}",
            producer ? Describe(graph, graph.node(producer)) + " " : "",
            graph.value_name(largest->value), DataTypeName(largest->info.type),
            largest->info.shape.ToString(), error.what());
    }
  }

  void Run(std::span<const Argument> inputs, const RandomKey& random,
           const std::function<void()>& before_writes) {
    options_.budget->CountRun();
    Release();
    Entry& entry = FindOrMake(inputs);
    held_.Add(entry.bound->plan().peak_bytes());
    if (entry.sizer != nullptr) {
      RunSegments(entry, inputs, random, before_writes);
      return;
    }
    ReserveFor(*arena_, entry.bound->plan());
    current_ = entry.bound.get();
    current_->Bind(arena_->base(), inputs);
    const Plan& plan = current_->plan();
    current_->Run(0, plan.first_write, random, options_.profiler);
    if (before_writes) before_writes();
    current_->Run(plan.first_write, plan.steps.size(), random,
                  options_.profiler);
  }

  void Release() {
    current_ = nullptr;
    segments_.clear();
    held_.Release();
  }

  Tensor output(size_t i) const {
    STROP_CHECK(current_ != nullptr &&
                i < current_->plan().output_slots.size());
    return current_->slot(current_->plan().output_slots[i]).tensor;
  }

  const Plan& Prepare(std::span<const Argument> inputs) {
    held_.Release();  // the last step is over
    return FindOrMake(inputs).bound->plan();
  }

 private:
  struct Segment {
    Arena arena;
    std::unique_ptr<BoundPlan> bound;
  };

  struct Entry {
    // Types and shapes of all inputs; a list's tensors stand in line behind
    // an undefined type whose shape is their number.
    std::vector<TensorInfo> key;
    std::shared_ptr<const ConstantInputs> constants;
    std::unique_ptr<BoundPlan> bound;
    // Set for a graph with data-dependent shapes, whose later segments are
    // made in each run.
    std::unique_ptr<Sizer> sizer;
  };

  // Calls fn(type, shape) for each entry of a key, until one returns false.
  template <class F>
  bool ForKey(std::span<const Argument> inputs, F fn) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_list_[i]) {
        const Tensor& tensor = inputs[i].tensor;
        if (!fn(tensor.type(), tensor.shape())) return false;
        continue;
      }
      const auto count = static_cast<int64_t>(inputs[i].list.size());
      if (!fn(DataType::kUndefined, Shape{count})) return false;
      for (const Tensor& tensor : inputs[i].list) {
        if (!fn(tensor.type(), tensor.shape())) return false;
      }
    }
    return true;
  }

  bool Fits(const Entry& entry, std::span<const Argument> inputs) const {
    size_t next = 0;
    return entry.constants == constants_ &&
           ForKey(inputs,
                  [&](DataType type, const Shape& shape) {
                    if (next == entry.key.size()) return false;
                    const TensorInfo& info = entry.key[next++];
                    return info.type == type && info.shape == shape;
                  }) &&
           next == entry.key.size();
  }

  // The plan that was used last stands in front.
  Entry& FindOrMake(std::span<const Argument> inputs) {
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (!Fits(*plans_[i], inputs)) continue;
      const auto found = plans_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(plans_.begin(), found, found + 1);
      if (plans_[0]->sizer != nullptr) Remake(*plans_[0], inputs);
      return *plans_[0];
    }
    auto entry = std::make_unique<Entry>();
    ForKey(inputs, [&](DataType type, const Shape& shape) {
      entry->key.push_back({type, shape});
      return true;
    });
    entry->constants = constants_;
    Remake(*entry, inputs);
    const auto most = static_cast<size_t>(std::max(1, options_.max_plans));
    if (plans_.size() >= most) {
      if (plans_.back()->bound.get() == current_) current_ = nullptr;
      plans_.pop_back();
    }
    plans_.insert(plans_.begin(), std::move(entry));
    return *plans_[0];
  }

  void Remake(Entry& entry, std::span<const Argument> inputs) {
    SizeOptions options = {.providers = options_.providers,
                           .num_threads = options_.num_threads,
                           .control_flow = control_flow_.get(),
                           .constants = entry.constants.get(),
                           .budget = options_.budget.get()};
    auto sizer = std::make_unique<Sizer>(lowered_, inputs, options);
    std::unique_ptr<Plan> plan = sizer->Next();
    if (!sizer->done()) {
      options.writes_last = true;
      sizer = std::make_unique<Sizer>(lowered_, inputs, options);
      plan = sizer->Next();
    }
    entry.bound = Bind(std::move(plan));
    entry.sizer = sizer->done() ? nullptr : std::move(sizer);
  }

  std::unique_ptr<BoundPlan> Bind(std::unique_ptr<Plan> plan) const {
    options_.budget->Check(plan->peak_bytes());
    return std::make_unique<BoundPlan>(std::move(plan), options_.thread_pool,
                                       options_.num_threads);
  }

  // Runs a graph with data-dependent shapes, a segment at a time, each in
  // memory of its own.
  void RunSegments(Entry& entry, std::span<const Argument> inputs,
                   const RandomKey& random,
                   const std::function<void()>& before_writes) {
    bool called = !before_writes;
    std::unique_ptr<BoundPlan> bound = std::move(entry.bound);
    while (true) {
      Segment& segment = segments_.emplace_back();
      segment.bound = std::move(bound);
      const Plan& plan = segment.bound->plan();
      ReserveFor(segment.arena, plan);
      segment.bound->Bind(segment.arena.base(), inputs);
      current_ = segment.bound.get();
      const bool last = entry.sizer->done();
      segment.bound->Run(0, plan.first_write, random, options_.profiler);
      if (!called && (last || plan.first_write < plan.steps.size())) {
        before_writes();
        called = true;
      }
      segment.bound->Run(plan.first_write, plan.steps.size(), random,
                         options_.profiler);
      if (last) return;
      entry.sizer->Carry(plan, segment.arena.base());
      bound = Bind(entry.sizer->Next(&random));
      held_.Add(bound->plan().peak_bytes());
    }
  }

  LoweredGraph lowered_;
  std::vector<bool> is_list_;  // by graph input
  std::shared_ptr<Arena> arena_;
  ExecutorOptions options_;                    // with a budget
  HeldBytes held_;                             // by the running or last Run
  std::unique_ptr<ControlFlow> control_flow_;  // null: no sub-graphs
  std::shared_ptr<const ConstantInputs> constants_ =
      std::make_shared<const ConstantInputs>();
  std::vector<std::unique_ptr<Entry>> plans_;
  std::vector<Segment> segments_;
  BoundPlan* current_ = nullptr;
};

Executor::Executor(LoweredGraph lowered, std::shared_ptr<Arena> arena,
                   ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(lowered), std::move(arena),
                                   std::move(options))) {}
Executor::~Executor() = default;

const Graph& Executor::graph() const { return impl_->graph(); }

void Executor::SetConstants(ConstantInputs constants) {
  impl_->SetConstants(std::move(constants));
}

void Executor::Run(std::span<const Argument> inputs, const RandomKey& random,
                   const std::function<void()>& before_writes) {
  impl_->Run(inputs, random, before_writes);
}

Tensor Executor::output(size_t i) const { return impl_->output(i); }

void Executor::Release() { impl_->Release(); }

const Plan& Executor::Prepare(std::span<const Argument> inputs) {
  return impl_->Prepare(inputs);
}

}  // namespace strop
