// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/lower.h"

namespace strop {

struct KnownValue;

// A sub-graph of an If, Loop or Scan, with its executor.
class Body {
 public:
  // `arena` may be shared with sub-graphs that run one after the other.
  Body(LoweredBody body, std::shared_ptr<Arena> arena,
       const ExecutorOptions& options);

  // Without what the sub-graph captures of the graph around.
  size_t input_count() const { return input_count_; }
  size_t output_count() const { return graph().outputs().size(); }
  const Graph& graph() const { return executor_.graph(); }
  const std::string& output_name(size_t i) const {
    return graph().value_name(graph().outputs()[i]);
  }

  // Whether output 0, as the condition of a Loop, never changes.
  bool has_fixed_condition() const { return has_fixed_condition_; }

  // Looks up what the sub-graph captures. Small values that do not vary are
  // constants to it, so that shapes that are made of them do not depend on
  // data.
  void Capture(const std::function<const KnownValue&(ValueId)>& value_of);
  void SetInput(size_t i, const Tensor& tensor) {
    arguments_[i].tensor = tensor;
  }
  void Run(const RandomKey& random) { executor_.Run(arguments_, random); }
  // Until the next Run, or Release.
  Tensor output(size_t i) const { return executor_.output(i); }

  // Gives back what the last Run holds.
  void Release() { executor_.Release(); }

  // What is stacked over no iterations: the declared type, no elements.
  OwnedTensor EmptyStack(size_t i, int64_t axis) const;

 private:
  bool has_fixed_condition_;
  std::vector<ValueId> captured_;
  size_t input_count_;
  Executor executor_;
  std::vector<Argument> arguments_;
};

}  // namespace strop
