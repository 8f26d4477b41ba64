// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/throw.h"
#include "runtime/control_run.h"
#include "runtime/iterations.h"

namespace strop {
namespace {

// The node's inputs before the carried values: how many iterations there are
// at most, and the condition.
constexpr size_t kFirstCarried = 2;

// So many iterations never end; exporters write it for a `while`, too.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t MostIterations(const ControlRun& run) {
  if (run.inputs.empty() || !run.inputs[0]) {
    return kNoLimit;
  }
  const Tensor& most = *run.inputs[0];
  if (most.type() != DataType::kInt64 || most.element_count() != 1) {
    run.node.Fail(fmt::format(
        "the number of iterations must be one int64, not {} of shape {}",
        DataTypeName(most.type()), most.shape().ToString()));
  }
  return most.values<int64_t>()[0];
}

}  // namespace

std::vector<HeldTensor> RunLoop(const ControlRun& run, Body& body) {
  std::vector<HeldTensor> initial;
  for (size_t i = kFirstCarried; i < run.inputs.size(); ++i) {
    initial.emplace_back(run.budget, run.input(i));
  }
  Iterations iterations(run, body, {.first_input = 2, .first_output = 1},
                        std::move(initial));
  const int64_t most = MostIterations(run);
  bool go_on = run.inputs.size() < 2 || !run.inputs[1] ||
               run.BoolOf(*run.inputs[1], "the condition");
  const bool is_endless = most == kNoLimit && body.has_fixed_condition();
  bool condition = true;
  for (int64_t i = 0; go_on && i < most; ++i) {
    body.SetInput(0, Tensor(Shape{}, &i));
    body.SetInput(1, Tensor(Shape{}, &condition));
    iterations.Run(i);
    go_on = run.BoolOf(body.output(0), "the condition of the sub-graph");
    if (go_on && is_endless) {
      run.node.Fail(
          "never ends: nothing limits the number of its iterations, and the "
          "condition of its sub-graph stays true",
          ErrorCode::kInvalidGraph);
    }
    iterations.Keep();
  }
  std::vector<HeldTensor> results = std::move(iterations.carried());
  for (size_t i = 0; i < iterations.stacked_count(); ++i) {
    results.push_back(iterations.pieces(i).empty() ? iterations.EmptyStack(i, 0)
                                                   : iterations.Stacked(i, 0));
  }
  return results;
}

}  // namespace strop
