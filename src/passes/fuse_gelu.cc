// SPDX-License-Identifier: Apache-2.0
//
// Gelu as exporters spell it below opset 20, a product of x, 1/2 and
// 1 + Erf(x / sqrt(2)) in any order, becomes com.microsoft Gelu (ONNX's own
// from opset 20 on).
#include <cmath>
#include <optional>

#include "ops/graph_builder.h"
#include "passes/passes.h"

namespace strop {
namespace {

constexpr int64_t kGeluOfOnnx = 20;
constexpr double kRoot2 = 1.4142135623730951;

class GeluMatcher {
 public:
  explicit GeluMatcher(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  // Rewrites the product that ends in the Mul `id`, if it is one.
  void TryAt(size_t position, NodeId id) {
    const Node& outer = graph_.node(id);
    if (outer.op_type != "Mul" || !outer.domain.empty()) return;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId product = outer.input(i), rest = outer.input(1 - i);
      const Node* inner = ProducerOf(graph_, product, kOnnx, "Mul");
      if (inner == nullptr || !HasOneUse(graph_, consumers_, product)) continue;
      const ValueId factors[] = {rest, inner->input(0), inner->input(1)};
      if (const ValueId x = GeluOf(factors)) return Replace(position, id, x);
    }
  }

 private:
  bool Is(ValueId id, double value) {
    const auto scalar = builder_.ConstantScalar(builder_.Of(id));
    return scalar && std::abs(*scalar - value) < 1e-4;
  }

  // x, where the value is 1 + Erf(x / sqrt(2)).
  ValueId ErfOf(ValueId value) {
    const Node* add = ProducerOf(graph_, value, kOnnx, "Add");
    if (add == nullptr) return {};
    for (size_t i = 0; i < 2; ++i) {
      const Node* erf = ProducerOf(graph_, add->input(i), kOnnx, "Erf");
      if (erf == nullptr || !Is(add->input(1 - i), 1)) continue;
      if (const Node* div = ProducerOf(graph_, erf->input(0), kOnnx, "Div");
          div != nullptr && Is(div->input(1), kRoot2))
        return div->input(0);
      if (const Node* mul = ProducerOf(graph_, erf->input(0), kOnnx, "Mul");
          mul != nullptr && Is(mul->input(1), 1 / kRoot2))
        return mul->input(0);
    }
    return {};
  }

  ValueId GeluOf(std::span<const ValueId, 3> factors) {
    constexpr size_t kOrders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const auto& order : kOrders) {
      const ValueId x = factors[order[0]];
      if (Is(factors[order[1]], 0.5) && x && ErfOf(factors[order[2]]) == x)
        return x;
    }
    return {};
  }

  void Replace(size_t position, NodeId id, ValueId x) {
    Node node;
    node.op_type = "Gelu";
    if (graph_.opset(kOnnx) < kGeluOfOnnx) {
      node.domain = kMicrosoft;
      graph_.opset_imports[std::string(kMicrosoft)] = 1;
    }
    node.inputs = {x};
    ReplaceNode(graph_, position, id, std::move(node));
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void FuseGelu(Graph& graph) {
  GeluMatcher matcher(graph);
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (size_t i = 0; i < order.size(); ++i) matcher.TryAt(i, order[i]);
  RemoveDead(graph);
}

}  // namespace strop
