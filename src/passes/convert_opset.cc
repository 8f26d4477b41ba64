// SPDX-License-Identifier: Apache-2.0
//
// Inside Strop every op has one spelling, that of the newest opset; what a
// file of another opset says is found when it is written. So only ops that
// changed their meaning, which have an OpDef for each, need anything here.
#include "passes/convert_opset.h"

#include <algorithm>
#include <string>

#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/registry.h"

namespace strop {
namespace {

constexpr int64_t kOldest = 6, kNewest = 28;
// From here on Split says how many parts are of equal size.
constexpr int64_t kSplitSaysParts = 18;
// Upsample ended with opset 9.
constexpr int64_t kUpsampleEnded = 10;

struct FirstWith {
  int64_t opset, ir_version;
};

// The IR versions of the ONNX releases that brought the opsets.
constexpr FirstWith kIrVersions[] = {{9, 4},   {10, 5}, {11, 6},  {12, 7},
                                     {15, 8},  {19, 9}, {21, 10}, {23, 11},
                                     {24, 12}, {25, 13}};

class Converter {
 public:
  explicit Converter(int64_t opset) : opset_(opset) {}

  void Convert(Graph& graph) {
    for (const NodeId id : graph.order()) {
      Node& node = graph.node(id);
      RewriteSubgraphs(node, [&](Graph& body) { Convert(body); });
      // How it was spelt in the old opset does not count any more.
      node.spelling = nullptr;
      if (node.domain.empty()) ConvertNode(graph, node);
    }
    graph.opset_imports[std::string(kOnnx)] = opset_;
  }

  void ThrowRefused() const {
    if (refused_.empty()) return;
    Throw(ErrorCode::kNotImplemented,
          "the model cannot be moved to opset {}: there these mean something "
          "else: {}",
          opset_, refused_);
  }

 private:
  void ConvertNode(const Graph& graph, Node& node) {
    if (node.op_type == "Split" && opset_ >= kSplitSaysParts &&
        !node.input(1) && node.FindAttribute("num_outputs") == nullptr) {
      node.SetAttribute("num_outputs",
                        static_cast<int64_t>(node.outputs.size()));
    }
    if (MeansTheSame(graph, node) || IsSoftmaxOfLastAxis(graph, node)) return;
    refused_ += (refused_.empty() ? "" : ", ") + Describe(graph, node);
  }

  bool MeansTheSame(const Graph& graph, const Node& node) const {
    if (node.op_type == "Upsample" && opset_ >= kUpsampleEnded) return false;
    return FindOp(kOnnx, node.op_type, graph.opset(kOnnx)) ==
           FindOp(kOnnx, node.op_type, opset_);
  }

  // Below opset 13 it is over all axes from `axis` on, taken as one; where
  // that is the last alone, both mean the same.
  static bool IsSoftmaxOfLastAxis(const Graph& graph, Node& node) {
    if (node.op_type != "Softmax" && node.op_type != "LogSoftmax" &&
        node.op_type != "Hardmax")
      return false;
    const auto& dims = graph.value(node.input(0)).type.dims;
    const int64_t axis = OpNode(graph, node).Int("axis", 1);
    if (!dims || (axis != -1 && axis != static_cast<int64_t>(dims->size()) - 1))
      return false;
    node.SetAttribute("axis", int64_t{-1});
    return true;
  }

  const int64_t opset_;
  std::string refused_;
};

}  // namespace

void ConvertOpset(Model& model, int64_t opset) {
  const int64_t now = model.graph.opset(kOnnx);
  if (opset == now) return;
  if (opset < std::max(now, kOldest) || opset > kNewest) {
    Throw(ErrorCode::kInvalidArgument,
          "opset {} is not to be had: the model is of opset {}, and opsets up "
          "to {} are known",
          opset, now, kNewest);
  }
  Converter converter(opset);
  converter.Convert(model.graph);
  converter.ThrowRefused();
  for (OpsetImport& import : model.opset_imports) {
    if (!import.domain.empty() && import.domain != "ai.onnx") continue;
    import.version = opset;
    import.encoded.clear();
  }
  for (const FirstWith& first : kIrVersions)
    if (opset >= first.opset)
      model.ir_version = std::max(model.ir_version, first.ir_version);
}

}  // namespace strop
