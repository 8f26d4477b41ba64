// SPDX-License-Identifier: Apache-2.0
#include "runtime/iterations.h"

#include <utility>

#include "base/throw.h"
#include "runtime/stack.h"

namespace strop {

Iterations::Iterations(const ControlRun& run, Body& body, const Layout& layout,
                       std::vector<HeldTensor> carried)
    : run_(run),
      body_(body),
      layout_(layout),
      carried_count_(carried.size()),
      carried_(std::move(carried)) {
  const size_t outputs = run.node.node().outputs.size();
  if (outputs < carried_count_) {
    run.node.Fail(fmt::format("has {} carried values but {} outputs",
                              carried_count_, outputs),
                  ErrorCode::kInvalidGraph);
  }
  run.RequireCounts(body,
                    layout.first_input + carried_count_ + layout.more_inputs,
                    layout.first_output + outputs);
  pieces_.resize(outputs - carried_count_);
}

void Iterations::Run(int64_t iteration) {
  for (size_t i = 0; i < carried_count_; ++i) {
    body_.SetInput(layout_.first_input + i, carried_[i].view());
  }
  body_.Run(run_.Random(iteration));
}

void Iterations::Keep() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].emplace_back(run_.budget, body_.output(OutputOf(i)));
  }
  std::vector<HeldTensor> next;
  for (size_t i = 0; i < carried_count_; ++i) {
    next.emplace_back(run_.budget, body_.output(layout_.first_output + i));
  }
  carried_ = std::move(next);
}

HeldTensor Iterations::Stacked(size_t i, size_t axis) const {
  return Stack(run_.budget, pieces_[i], axis, body_.output_name(OutputOf(i)));
}

HeldTensor Iterations::EmptyStack(size_t i, int64_t axis) const {
  return HeldTensor(run_.budget, body_.EmptyStack(OutputOf(i), axis));
}

}  // namespace strop
