// SPDX-License-Identifier: Apache-2.0
//
// A plan: everything about running a graph for one tuple of input shapes,
// decided once. It names memory by offset only; an executor binds it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "strop/execution_provider.h"
#include "strop/op.h"

namespace strop {

// A value, or a copy of one in another layout, while a plan runs.
struct PlanSlot {
  enum class Storage {
    kNone,      // nobody needs its elements
    kInput,     // memory of a graph input, bound for each run
    kConstant,  // an initializer, one of Plan::constants, or a value of an
                // earlier segment
    kArena,     // at `offset` in the arena
  };
  ValueId value;
  TensorInfo info;
  bool is_list = false;
  Layout layout = Layout::kPlain;
  Storage storage = Storage::kNone;
  size_t offset = 0;  // kArena
  int input = -1;     // kInput: position among the graph's inputs
  const void* constant = nullptr;
  int shares = -1;   // the slot whose memory this one is, whole
  size_t bytes = 0;  // padding included
};

struct PlanStep {
  const Node* node = nullptr;
  const OpDef* op = nullptr;
  std::unique_ptr<Kernel> kernel;
  std::string kernel_name;  // "cpu gemm", "reference", ...
  std::string declined;     // why better kernels were not taken
  std::vector<int> inputs;  // slots; -1: left out
  std::vector<int> outputs;
  size_t scratch_offset = 0;
  size_t scratch_bytes = 0;
  double flops = 0;
  bool writes_inputs = false;
  // The node's place in the graph: names its random stream, whatever plan
  // the step stands in.
  uint32_t random_node = 0;
};

struct Plan {
  const Graph* graph = nullptr;
  std::vector<PlanSlot> slots;
  std::vector<PlanStep> steps;
  // One for each graph output; empty in a segment that ends before all are
  // computed.
  std::vector<int> output_slots;
  // Index of the first step that writes into a graph input; steps.size() if
  // none does. Everything before it may fail without a trace.
  size_t first_write = 0;
  size_t arena_bytes = 0;
  // Values that were computed when the plan was made.
  std::vector<std::unique_ptr<OwnedTensor>> constants;
  size_t constant_bytes = 0;
  // Nodes that stand in the plan only (Reorder).
  std::deque<Node> extra_nodes;

  // What a step holds beside parameters and gradients.
  size_t peak_bytes() const { return arena_bytes + constant_bytes; }
};

// The plan as a table, and as a JSON object.
std::string DescribePlan(const Plan& plan);
std::string DescribePlanAsJson(const Plan& plan);

}  // namespace strop
