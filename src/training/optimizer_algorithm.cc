// SPDX-License-Identifier: Apache-2.0
#include "training/optimizer_algorithm.h"

#include <algorithm>
#include <string>

#include "base/throw.h"

namespace strop {
namespace {

constexpr std::string_view kMoments[] = {"momentum0", "momentum1"};
constexpr std::string_view kMomentInputs[] = {"first_order_moments",
                                              "second_order_moments"};

// SGD keeps a moment that it never reads, as in ONNX Runtime's files.
constexpr OptimizerAlgorithm kAlgorithms[] = {
    {"AdamWOptimizer", kMoments, kMomentInputs},
    {"SGDOptimizerV2", std::span(kMoments, 1), std::span(kMomentInputs, 1)},
};

void CheckInputs(const Graph& graph, const OptimizerAlgorithm& algorithm) {
  std::vector<std::string_view> wanted(std::begin(kOptimizerInputs),
                                       std::end(kOptimizerInputs));
  wanted.insert(wanted.end(), algorithm.moment_inputs.begin(),
                algorithm.moment_inputs.end());
  std::vector<std::string_view> actual;
  for (ValueId id : graph.inputs()) actual.push_back(graph.value_name(id));
  if (actual == wanted) return;
  auto join = [](const std::vector<std::string_view>& names) {
    std::string text;
    for (std::string_view name : names) {
      if (!text.empty()) text += ", ";
      text += name;
    }
    return text;
  };
  Throw(ErrorCode::kInvalidGraph,
        "the optimizer graph must have the inputs {} in this order, it has {}",
        join(wanted), actual.empty() ? "none" : join(actual));
}

}  // namespace

const OptimizerAlgorithm& FindOptimizerAlgorithm(const Graph& graph) {
  const OptimizerAlgorithm* found = nullptr;
  int count = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const OptimizerAlgorithm& algorithm : kAlgorithms) {
      if (node.domain != kMicrosoft || node.op_type != algorithm.op_type) {
        continue;
      }
      found = &algorithm;
      ++count;
    }
  }
  if (count != 1) {
    Throw(ErrorCode::kInvalidGraph,
          "the optimizer graph must have exactly one node of kind {} or {} "
          "(domain {}), it has {}",
          kAlgorithms[0].op_type, kAlgorithms[1].op_type, kMicrosoft, count);
  }
  CheckInputs(graph, *found);
  return *found;
}

}  // namespace strop
