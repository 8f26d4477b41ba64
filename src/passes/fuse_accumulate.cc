// SPDX-License-Identifier: Apache-2.0
//
// A gradient that only an InPlaceAccumulatorV2 reads is computed straight
// into its buffer: Gemm, ReduceSum, GatherGrad and ConvGrad become their
// accumulating twins, which overwrite or add as the reset flag says at run
// time.
#include <optional>
#include <vector>

#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

struct Accumulation {
  NodeId node;
  ValueId buffer;
  ValueId overwrite;
};

class AccumulateFuser {
 public:
  explicit AccumulateFuser(Graph& graph)
      : graph_(graph), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.domain == kMicrosoft && node.op_type == "ConvGrad") {
        FuseConvGrad(id);
      } else if (node.domain == kMicrosoft && node.op_type == "GatherGrad") {
        FuseGatherGrad(id);
      } else if (node.op_type == "ReduceSum" && node.domain == kOnnx) {
        FuseOne(id, "ReduceSumAccumulate");
      } else if (node.op_type == "Gemm" && !node.input(2) &&
                 (node.domain == kInternal || node.domain == kOnnx) &&
                 !node.FindAttribute("activation")) {
        FuseOne(id, "GemmAccumulate");
      }
    }
  }

 private:
  // The accumulation that is the only reader of `gradient`.
  std::optional<Accumulation> Find(ValueId gradient) const {
    if (!gradient || !HasOneUse(graph_, consumers_, gradient)) return {};
    const NodeId id = consumers_[static_cast<size_t>(gradient.index)][0];
    const Node& node = graph_.node(id);
    if (node.op_type != "InPlaceAccumulatorV2" || node.domain != kMicrosoft ||
        node.input(1) != gradient || !node.input(2)) {
      return {};
    }
    for (ValueId output : node.outputs) {
      if (output && (graph_.value(output).is_output ||
                     !consumers_[static_cast<size_t>(output.index)].empty())) {
        return {};
      }
    }
    return Accumulation{id, node.inputs[0], node.inputs[2]};
  }

  // Two inputs and one output, which is accumulated.
  void FuseOne(NodeId id, const char* twin) {
    Node& node = graph_.node(id);
    const auto accumulation = Find(node.output(0));
    if (!accumulation || !node.input(1)) return;
    node.op_type = twin;
    node.domain = kInternal;
    node.RemoveAttribute("beta");
    node.inputs = {node.inputs[0], node.inputs[1], accumulation->buffer,
                   accumulation->overwrite};
    graph_.RemoveNode(accumulation->node);
  }

  // Once a buffer is written nothing may fail: a Gather must have checked the
  // indices in the forward pass.
  bool IsChecked(const Node& grad) const {
    const Node* shape = ProducerOf(graph_, grad.input(0), kOnnx, "Shape");
    if (shape == nullptr) return false;
    for (const NodeId id :
         consumers_[static_cast<size_t>(shape->inputs[0].index)]) {
      const Node& node = graph_.node(id);
      if (node.op_type == "Gather" && node.domain == kOnnx &&
          node.inputs == std::vector{shape->inputs[0], grad.inputs[1]} &&
          OpNode(graph_, node).Int("axis", 0) ==
              OpNode(graph_, grad).Int("axis", 0)) {
        return true;
      }
    }
    return false;
  }

  // GatherGrad(shape, indices, dY): the buffer has the shape.
  void FuseGatherGrad(NodeId id) {
    Node& node = graph_.node(id);
    const auto accumulation = Find(node.output(0));
    if (!accumulation || !IsChecked(node)) return;
    node.op_type = "GatherGradAccumulate";
    node.domain = kInternal;
    node.inputs = {node.inputs[1], node.inputs[2], accumulation->buffer,
                   accumulation->overwrite};
    graph_.RemoveNode(accumulation->node);
  }

  // ConvGrad(dY, X, W) -> dX, dW, dB: dW and, where it is there, dB.
  void FuseConvGrad(NodeId id) {
    Node& node = graph_.node(id);
    const auto weight = Find(node.output(1));
    if (!weight) return;
    std::optional<Accumulation> bias;
    if (node.output(2)) {
      bias = Find(node.output(2));
      if (!bias || bias->overwrite != weight->overwrite) return;
    }
    node.op_type = "ConvGradAccumulate";
    node.domain = kInternal;
    node.inputs = {node.inputs[0],
                   node.inputs[1],
                   node.inputs[2],
                   weight->buffer,
                   bias ? bias->buffer : ValueId{},
                   weight->overwrite};
    graph_.RemoveNode(weight->node);
    if (bias) graph_.RemoveNode(bias->node);
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void FuseAccumulate(Graph& graph) { AccumulateFuser(graph).Run(); }

}  // namespace strop
