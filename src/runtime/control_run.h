// SPDX-License-Identifier: Apache-2.0
//
// One run of an If, Loop or Scan. Each gives the outputs of its node.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/body.h"
#include "runtime/step_budget.h"
#include "strop/op.h"
#include "strop/random.h"

namespace strop {

struct ControlRun {
  OpNode node;
  std::vector<std::optional<Tensor>> inputs;  // nullopt: left out
  RandomKey random;
  StepBudget& budget;

  // Throws where the input is left out.
  const Tensor& input(size_t i) const;
  // Another stream of random numbers for each node and iteration.
  RandomKey Random(int64_t iteration) const;
  // Throws where the sub-graph has other numbers of inputs and outputs.
  void RequireCounts(const Body& body, size_t inputs, size_t outputs) const;
  // The one bool of the tensor; throws, calling it `what`, for other tensors.
  bool BoolOf(const Tensor& tensor, std::string_view what) const;
};

std::vector<HeldTensor> RunIf(const ControlRun& run, Body& then_branch,
                              Body& else_branch);
std::vector<HeldTensor> RunLoop(const ControlRun& run, Body& body);
// Of opset 8, and of the newer ones.
std::vector<HeldTensor> RunScan8(const ControlRun& run, Body& body);
std::vector<HeldTensor> RunScan9(const ControlRun& run, Body& body);

}  // namespace strop
