// SPDX-License-Identifier: Apache-2.0
//
// A convolution that no gradient passes, with the Relu or Clip that is its
// only reader, becomes the internal FusedConv.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ops/graph_builder.h"
#include "passes/passes.h"

namespace strop {
namespace {

class ConvFuser {
 public:
  explicit ConvFuser(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    for (NodeId id : order) {
      if (!IsEligible(graph_.node(id))) continue;
      const NodeId reader = Readers(graph_.node(id).outputs[0])[0];
      if (const auto parameters = ParametersOf(graph_.node(reader))) {
        Fuse(id, reader, *parameters);
      }
    }
  }

 private:
  const std::vector<NodeId>& Readers(ValueId value) const {
    return consumers_[static_cast<size_t>(value.index)];
  }

  // Its gradient would read the weights.
  bool IsEligible(const Node& node) const {
    return node.op_type == "Conv" && node.domain == kOnnx &&
           graph_.value(node.inputs[1]).type.element == DataType::kFloat32 &&
           Readers(node.inputs[1]).size() == 1 &&
           HasOneUse(graph_, consumers_, node.outputs[0]);
  }

  // Bounds of a Clip; none for Relu.
  using Parameters = std::vector<float>;

  std::optional<Parameters> ParametersOf(const Node& node) {
    if (node.domain != kOnnx) return std::nullopt;
    if (node.op_type == "Relu") return Parameters();
    if (node.op_type != "Clip") return std::nullopt;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Parameters bounds = {-kInfinity, kInfinity};
    for (size_t i = 0; i < 2; ++i) {
      if (!node.input(i + 1)) continue;
      const auto number =
          builder_.ConstantScalar(builder_.Of(node.input(i + 1)));
      if (!number) return std::nullopt;
      bounds[i] = static_cast<float>(*number);
    }
    // Padding of blocked tensors must stay zero.
    if (bounds[0] > 0 || bounds[1] < 0) return std::nullopt;
    return bounds;
  }

  void Fuse(NodeId id, NodeId reader, const Parameters& parameters) {
    const std::string activation = graph_.node(reader).op_type;
    const ValueId y = graph_.node(reader).outputs[0];
    graph_.RemoveNode(reader);
    Node& conv = graph_.node(id);
    conv.SetAttribute("activation", activation);
    if (!parameters.empty()) conv.SetAttribute("activation_params", parameters);
    graph_.value(conv.outputs[0]).producer = {};
    conv.op_type = "FusedConv";
    conv.domain = kInternal;
    conv.outputs[0] = y;
    graph_.value(y).producer = id;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void FuseConv(Graph& graph) { ConvFuser(graph).Run(); }

}  // namespace strop
