// SPDX-License-Identifier: Apache-2.0
//
// Ops that a gradient needs and the model's opset does not have yet. Strop
// knows one spelling of each op and runs them in any opset.
#include <algorithm>
#include <map>
#include <utility>

#include "artifacts/notes.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/number.h"

namespace strop {
namespace {

struct Introduced {
  std::string_view op_type;
  int64_t opset;
};

// When ONNX got the ops that opset 6 lacks. LayerNormalization is not here:
// ONNX Runtime has it in every opset.
constexpr Introduced kIntroduced[] = {
    {"Acos", 7},
    {"Acosh", 9},
    {"Asin", 7},
    {"Asinh", 9},
    {"Atan", 7},
    {"Atanh", 9},
    {"Attention", 23},
    {"BitShift", 11},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"CastLike", 15},
    {"Celu", 12},
    {"CenterCropPad", 18},
    {"Col2Im", 18},
    {"Compress", 9},
    {"ConstantOfShape", 9},
    {"Cos", 7},
    {"Cosh", 9},
    {"CumProd", 26},
    {"CumSum", 11},
    {"DFT", 17},
    {"DequantizeLinear", 10},
    {"Det", 11},
    {"Einsum", 12},
    {"Erf", 9},
    {"Expand", 8},
    {"EyeLike", 9},
    {"GatherElements", 11},
    {"GatherND", 11},
    {"Gelu", 20},
    {"GreaterOrEqual", 12},
    {"GridSample", 16},
    {"GroupNormalization", 18},
    {"HardSwish", 14},
    {"IsInf", 10},
    {"IsNaN", 9},
    {"LessOrEqual", 12},
    {"MaxUnpool", 9},
    {"MeanVarianceNormalization", 9},
    {"Mish", 18},
    {"Mod", 10},
    {"NegativeLogLikelihoodLoss", 12},
    {"NonZero", 9},
    {"OneHot", 9},
    {"QuantizeLinear", 10},
    {"RMSNormalization", 23},
    {"Range", 11},
    {"Resize", 10},
    {"ReverseSequence", 10},
    {"Round", 11},
    {"Scan", 8},
    {"ScatterElements", 9},  // Scatter up to 10
    {"ScatterND", 11},
    {"Shrink", 9},
    {"Sign", 9},
    {"Sin", 7},
    {"Sinh", 9},
    {"SoftmaxCrossEntropyLoss", 12},
    {"Swish", 24},
    {"Tan", 7},
    {"ThresholdedRelu", 10},
    {"Trilu", 14},
    {"Unique", 11},
    {"Where", 9},
};

bool ReadsFloats(const Graph& graph, const Node& node) {
  return node.input(0) &&
         ops::IsFloatingPoint(graph.value(node.inputs[0]).type.element);
}

// The opset that the node needs, and what of it is new there.
std::pair<int64_t, std::string> NeededOpset(const Graph& graph,
                                            const Node& node) {
  if (node.op_type == "MaxPool" && node.output(1))
    return {8, "MaxPool with Indices"};
  if (node.op_type == "Equal" && ReadsFloats(graph, node))
    return {11, "Equal of floats"};
  const auto found = std::ranges::lower_bound(
      kIntroduced, std::string_view(node.op_type), {}, &Introduced::op_type);
  if (found == std::end(kIntroduced) || found->op_type != node.op_type)
    return {1, ""};
  return {found->opset, node.op_type};
}

void Collect(const Graph& graph, std::map<std::string, int64_t>& newer) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ForEachSubgraph(node, [&](const Graph& body) { Collect(body, newer); });
    if (!node.domain.empty()) continue;
    const auto [opset, what] = NeededOpset(graph, node);
    if (opset > graph.opset(kOnnx)) newer[what] = opset;
  }
}

}  // namespace

Lines NewerOpNotes(const Graph& training) {
  const int64_t opset = training.opset(kOnnx);
  std::map<std::string, int64_t> newer;
  if (opset > 0) Collect(training, newer);
  if (newer.empty()) return {};
  std::string list;
  int64_t needed = 0;
  for (const auto& [what, since] : newer) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", what);
    needed = std::max(needed, since);
  }
  return {fmt::format(
      "the training model holds {}, which opset {} does not have: it runs in "
      "Strop only; artifacts of opset {} (--opset) run in ONNX Runtime too",
      list, opset, needed)};
}

}  // namespace strop
