// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization with the addition of another branch and the Relu or Clip
// behind it becomes one op, BatchNormActivation, which writes the result once:
//   y = activation(BatchNormalization(x) + residual)
// Its gradient becomes one op too, which finds out from x, or with a residual
// from y, where the activation let the gradient through.
#include <limits>
#include <optional>
#include <vector>

#include "ops/graph_builder.h"
#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

struct Chain {
  NodeId norm;
  NodeId add;  // invalid: no residual
  ValueId residual;
  NodeId activation;  // invalid: none
  std::string_view kind;
  std::vector<float> bounds;  // of Clip
  ValueId y;
};

// ReluGrad or ClipGrad, and the gradient of the normalization behind it.
struct Backward {
  NodeId activation;
  NodeId norm;
};

class BatchNormFuser {
 public:
  explicit BatchNormFuser(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    for (NodeId id : order) {
      if (!graph_.node(id).removed && IsNorm(graph_.node(id))) TryAt(id);
    }
    if (changed_) graph_.SortNodes();
  }

 private:
  bool Is(NodeId id, std::string_view domain, std::string_view op) const {
    const Node& node = graph_.node(id);
    return !node.removed && node.op_type == op && node.domain == domain;
  }

  bool IsNorm(const Node& node) const {
    const bool fits =
        (node.op_type == "BatchNormInternal" && node.domain == kMicrosoft) ||
        (node.op_type == "BatchNormalization" && node.domain == kOnnx &&
         node.outputs.size() == 1);
    return fits && OpNode(graph_, node).Int("spatial", 1) != 0 &&
           graph_.value(node.inputs[0]).type.element == DataType::kFloat32;
  }

  std::vector<NodeId> Readers(ValueId value) const {
    return consumers_[static_cast<size_t>(value.index)];
  }

  bool SameDims(ValueId a, ValueId b) const {
    const auto& left = graph_.value(a).type.dims;
    const auto& right = graph_.value(b).type.dims;
    if (!left || !right || left->size() != right->size()) return false;
    for (size_t i = 0; i < left->size(); ++i) {
      const Dimension &l = (*left)[i], &r = (*right)[i];
      const bool known = l.value.has_value() || !l.symbol.empty();
      if (!known || l.value != r.value || l.symbol != r.symbol) return false;
    }
    return true;
  }

  // The Add that is the only reader of `value` and adds a tensor of the same
  // shape to it.
  void FindAdd(ValueId value, Chain& chain) const {
    if (!HasOneUse(graph_, consumers_, value)) return;
    const NodeId id = Readers(value)[0];
    const Node& add = graph_.node(id);
    if (!Is(id, kOnnx, "Add") || add.inputs[0] == add.inputs[1]) return;
    const ValueId other =
        add.inputs[0] == value ? add.inputs[1] : add.inputs[0];
    if (!SameDims(value, other)) return;
    chain.add = id;
    chain.residual = other;
    chain.y = add.outputs[0];
  }

  std::optional<std::vector<float>> ConstantBounds(const Node& clip) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    std::vector<float> bounds = {-kInfinity, kInfinity};
    for (size_t i = 0; i < 2; ++i) {
      if (!clip.input(i + 1)) continue;
      const auto number =
          builder_.ConstantScalar(builder_.Of(clip.input(i + 1)));
      if (!number) return std::nullopt;
      bounds[i] = static_cast<float>(*number);
    }
    return bounds;
  }

  // The activation of chain.y, whose other readers may be its gradients.
  void FindActivation(Chain& chain) {
    if (graph_.value(chain.y).is_output) return;
    NodeId found;
    for (NodeId id : Readers(chain.y)) {
      if (Is(id, kOnnx, "Relu") || (Is(id, kOnnx, "Clip") && !chain.add)) {
        if (found) return;
        found = id;
      } else if (!Is(id, kInternal, "ClipGrad")) {
        return;
      }
    }
    if (!found) return;
    const Node& node = graph_.node(found);
    if (node.op_type == "Clip") {
      const auto bounds = ConstantBounds(node);
      if (!bounds) return;
      chain.bounds = *bounds;
    } else if (Readers(chain.y).size() > 1) {
      return;
    }
    chain.kind = node.op_type == "Clip" ? "Clip" : "Relu";
    chain.activation = found;
  }

  // The gradient nodes that read what the chain takes away (or, for Relu, its
  // output); nullopt where one of them could not do without.
  std::optional<std::vector<Backward>> FindBackward(const Chain& chain) const {
    std::vector<Backward> all;
    if (!chain.activation) return all;
    const bool clips = chain.kind == "Clip";
    const Node& activation = graph_.node(chain.activation);
    const ValueId seen = clips ? chain.y : activation.outputs[0];
    for (NodeId id : Readers(seen)) {
      if (id == chain.activation) continue;
      const Node& grad = graph_.node(id);
      const bool fits = clips ? Is(id, kInternal, "ClipGrad")
                              : Is(id, kMicrosoft, "ReluGrad");
      if (!fits || grad.input(1) != seen || grad.input(0) == seen) {
        if (clips) return std::nullopt;
        continue;
      }
      const NodeId norm = NormGradOf(chain, grad);
      if (norm) all.push_back({id, norm});
      if (!norm && clips) return std::nullopt;
    }
    return all;
  }

  // The gradient of the normalization that reads the activation's; with a
  // residual it need not be the only reader.
  NodeId NormGradOf(const Chain& chain, const Node& grad) const {
    const ValueId dz = grad.outputs[0];
    const Node& norm = graph_.node(chain.norm);
    if (!chain.add && !HasOneUse(graph_, consumers_, dz)) return {};
    for (NodeId id : Readers(dz)) {
      const Node& node = graph_.node(id);
      if (Is(id, kMicrosoft, "BatchNormalizationGrad") &&
          node.inputs[0] == dz && node.inputs[1] == norm.inputs[0] &&
          node.inputs[2] == norm.inputs[1] &&
          node.inputs[3] == norm.output(3) &&
          node.inputs[4] == norm.output(4)) {
        return id;
      }
    }
    return {};
  }

  void TryAt(NodeId id) {
    Chain chain = {.norm = id,
                   .add = {},
                   .residual = {},
                   .activation = {},
                   .kind = {},
                   .bounds = {},
                   .y = graph_.node(id).outputs[0]};
    FindAdd(chain.y, chain);
    FindActivation(chain);
    if (!chain.add && !chain.activation) return;
    const auto backward = FindBackward(chain);
    if (!backward) return;
    for (const Backward& one : *backward) FuseBackward(chain, one);
    FuseForward(chain);
    changed_ = true;
  }

  void SetActivation(const Chain& chain, Node& node) const {
    if (chain.kind.empty()) return;
    node.SetAttribute("activation", std::string(chain.kind));
    if (chain.kind == "Clip") {
      node.SetAttribute("activation_params", chain.bounds);
    }
  }

  void FuseBackward(const Chain& chain, const Backward& backward) {
    const Node activation = graph_.node(backward.activation);
    const Node& forward = graph_.node(chain.norm);
    Node& norm = graph_.node(backward.norm);
    norm.op_type = "BatchNormActivationGrad";
    norm.domain = kInternal;
    norm.inputs[0] = activation.inputs[0];
    norm.inputs.resize(5);
    norm.inputs.push_back(forward.inputs[2]);
    graph_.RemoveNode(backward.activation);
    SetActivation(chain, norm);
    if (!chain.add) return;
    norm.inputs.push_back(activation.inputs[1]);
    norm.outputs.resize(4);
    norm.outputs[3] = activation.outputs[0];
    graph_.value(activation.outputs[0]).producer = backward.norm;
  }

  void FuseForward(const Chain& chain) {
    Node& norm = graph_.node(chain.norm);
    ValueId y = chain.y;
    if (chain.activation) {
      y = graph_.node(chain.activation).outputs[0];
      graph_.RemoveNode(chain.activation);
    }
    if (chain.add) graph_.RemoveNode(chain.add);
    norm.op_type = "BatchNormActivation";
    norm.domain = kInternal;
    if (chain.residual) norm.inputs.push_back(chain.residual);
    SetActivation(chain, norm);
    graph_.value(norm.outputs[0]).producer = {};
    norm.outputs[0] = y;
    graph_.value(y).producer = chain.norm;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
  bool changed_ = false;
};

}  // namespace

void FuseBatchNorm(Graph& graph) { BatchNormFuser(graph).Run(); }

}  // namespace strop
