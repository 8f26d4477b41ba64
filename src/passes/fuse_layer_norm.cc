// SPDX-License-Identifier: Apache-2.0
//
// Layer normalization as exporters spell it below opset 17,
//
//   d = x - ReduceMean(x)
//   y = d / Sqrt(ReduceMean(d * d) + epsilon) * scale + bias
//
// over the last axis, becomes LayerNormalization (which ONNX Runtime knows in
// every opset): one gradient op instead of a dozen, and less to keep for it.
#include <cmath>
#include <optional>

#include "ops/graph_builder.h"
#include "passes/passes.h"
#include "strop/op.h"

namespace strop {
namespace {

// The other input of a node of two inputs; invalid if `one` is none of them.
ValueId Other(const Node& node, ValueId one) {
  if (node.inputs.size() != 2) return {};
  if (node.input(0) == one) return node.input(1);
  return node.input(1) == one ? node.input(0) : ValueId{};
}

class LayerNormMatcher {
 public:
  explicit LayerNormMatcher(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  // Rewrites the pattern that ends in the Add `id`, if it is one.
  void TryAt(size_t position, NodeId id) {
    const Node& add = graph_.node(id);
    if (add.op_type != "Add" || !add.domain.empty()) return;
    for (const ValueId scaled : add.inputs) {
      const Node* mul = Producer(scaled, "Mul");
      if (mul == nullptr || !HasOneUse(graph_, consumers_, scaled)) continue;
      for (const ValueId normalized : mul->inputs) {
        const auto match = Match(normalized);
        if (!match) continue;
        const ValueId scale = Other(*mul, normalized);
        const ValueId bias = Other(add, scaled);
        if (!IsVector(scale) || !IsVector(bias)) continue;
        return Replace(position, id, *match, scale, bias);
      }
    }
  }

 private:
  struct Normalized {
    ValueId x;
    float epsilon;
  };

  const Node* Producer(ValueId value, std::string_view op_type) const {
    return ProducerOf(graph_, value, kOnnx, op_type);
  }

  bool IsVector(ValueId id) const {
    if (!id) return false;
    const auto& dims = graph_.value(id).type.dims;
    return dims && dims->size() == 1 && dims->front().value &&
           *dims->front().value > 1;
  }

  // The input of a ReduceMean over the last axis that keeps it.
  ValueId MeanOf(ValueId value) {
    const Node* mean = Producer(value, "ReduceMean");
    if (mean == nullptr || !mean->input(0) ||
        OpNode(graph_, *mean).Int("keepdims", 1) == 0)
      return {};
    const auto axes = builder_.ConstantInts(builder_.Of(mean->input(1)));
    if (!axes || axes->size() != 1) return {};
    const auto& dims = graph_.value(mean->input(0)).type.dims;
    const bool is_last =
        axes->front() == -1 ||
        (dims && axes->front() == static_cast<int64_t>(dims->size()) - 1);
    return is_last ? mean->input(0) : ValueId{};
  }

  // x, where the value is x - mean(x).
  ValueId CenteredOf(ValueId value) {
    const Node* sub = Producer(value, "Sub");
    if (sub == nullptr || !sub->input(0)) return {};
    const ValueId x = sub->input(0);
    return MeanOf(sub->input(1)) == x ? x : ValueId{};
  }

  // d, where the value is d * d or d to the 2.
  ValueId SquareOf(ValueId value) {
    if (const Node* pow = Producer(value, "Pow")) {
      const auto exponent = builder_.ConstantScalar(builder_.Of(pow->input(1)));
      return exponent == 2 ? pow->input(0) : ValueId{};
    }
    const Node* mul = Producer(value, "Mul");
    if (mul == nullptr || mul->input(0) != mul->input(1)) return {};
    return mul->input(0);
  }

  std::optional<Normalized> Match(ValueId value) {
    const Node* div = Producer(value, "Div");
    if (div == nullptr || !HasOneUse(graph_, consumers_, value))
      return std::nullopt;
    const ValueId x = CenteredOf(div->input(0));
    const Node* root = Producer(div->input(1), "Sqrt");
    if (!x || root == nullptr) return std::nullopt;
    const Node* sum = Producer(root->input(0), "Add");
    if (sum == nullptr) return std::nullopt;
    for (const ValueId variance : sum->inputs) {
      const auto epsilon =
          builder_.ConstantScalar(builder_.Of(Other(*sum, variance)));
      const ValueId square = MeanOf(variance);
      if (!epsilon || !square) continue;
      const ValueId d = SquareOf(square);
      // Some exporters compute d twice.
      if (d && CenteredOf(d) == x)
        return Normalized{x, static_cast<float>(*epsilon)};
    }
    return std::nullopt;
  }

  void Replace(size_t position, NodeId id, const Normalized& match,
               ValueId scale, ValueId bias) {
    Node node;
    node.op_type = "LayerNormalization";
    node.inputs = {match.x, scale, bias};
    node.SetAttribute("axis", int64_t{-1});
    node.SetAttribute("epsilon", match.epsilon);
    ReplaceNode(graph_, position, id, std::move(node));
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void FuseLayerNorm(Graph& graph) {
  LayerNormMatcher matcher(graph);
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (size_t i = 0; i < order.size(); ++i) matcher.TryAt(i, order[i]);
  RemoveDead(graph);
}

}  // namespace strop
