// SPDX-License-Identifier: Apache-2.0
//
// The node of an OpCase in a graph of its own: the function <seed, outputs>
// of its float inputs, and the gradients that Differentiate writes for it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/op_runner.h"
#include "runtime/executor.h"

namespace strop {

enum class KnownShapes { kAll, kNone };

// Float inputs are graph inputs, all others constants.
struct OneNode {
  Graph graph;
  std::vector<ValueId> inputs;   // float inputs
  std::vector<size_t> slots;     // their positions in the node
  std::vector<ValueId> outputs;  // float outputs
  std::vector<OwnedTensor> values, seeds;
  bool leaves_out = false;  // an element of an output that is not finite
};

// `shapes` says whether the graph declares the shapes of its inputs, or they
// are found when it runs. The seeds are the same numbers in every run, 0
// for elements of outputs that are not finite.
// With `only_output` the others are no part of the function.
OneNode BuildOneNode(const OpCase& op_case, DataType type, KnownShapes shapes,
                     std::optional<size_t> only_output = std::nullopt);

// The sum over outputs of <seed, output>, in float64 on the plain kernels.
class SeededFunction {
 public:
  explicit SeededFunction(const OneNode& built);
  double operator()(const std::vector<OwnedTensor>& values);

  // The sum of the magnitudes of what the last call added up.
  double magnitude() const { return magnitude_; }

 private:
  const std::vector<OwnedTensor>& seeds_;
  std::unique_ptr<Executor> executor_;
  double magnitude_ = 0;
};

// The gradients of that sum by each float input; an empty list where there is
// none. float64 runs on the plain kernels, float32 on those of the CPU.
// With `only_input`, a position in `inputs`, no other is asked for.
std::vector<Numbers64> GradientsOf(
    const OneNode& built, DataType type = DataType::kFloat64,
    std::optional<size_t> only_input = std::nullopt);

}  // namespace strop
