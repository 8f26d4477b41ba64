// SPDX-License-Identifier: Apache-2.0
//
// The gradient of Clip along its input becomes one op, the internal ClipGrad.
// ONNX Runtime spells it
//   dy * Cast(And(GreaterOrEqual(x, low), LessOrEqual(x, high)))
// and Strop
//   Where(Or(Less(x, low), Greater(Max(x, low), high)), 0, dy),
// both without the part of a bound that the Clip lacks.
#include <vector>

#include "ops/graph_builder.h"
#include "passes/passes.h"

namespace strop {
namespace {

struct Bounds {
  ValueId x, low, high;
};

class ClipGradFuser {
 public:
  explicit ClipGradFuser(Graph& graph)
      : graph_(graph), builder_(graph, ""), consumers_(graph.Consumers()) {}

  void Run() {
    for (NodeId id : graph_.order()) {
      Node& node = graph_.node(id);
      if (node.domain != kOnnx) continue;
      if (node.op_type == "Mul") TryProduct(node);
      if (node.op_type == "Where") TrySelection(node);
    }
    // The masks look like readers of x to the passes behind this one.
    if (changed_) RemoveDead(graph_);
  }

 private:
  const Node* Producer(ValueId value, std::string_view op_type) const {
    return ProducerOf(graph_, value, kOnnx, op_type);
  }

  void TryProduct(Node& node) {
    for (size_t i = 0; i < 2; ++i) {
      const Node* cast = Producer(node.input(i), "Cast");
      if (cast == nullptr) continue;
      Become(node, node.input(1 - i), InsideOf(cast->input(0)));
    }
  }

  void TrySelection(Node& node) {
    if (builder_.ConstantScalar(builder_.Of(node.input(1))) != 0) return;
    Become(node, node.input(2), OutsideOf(node.input(0)));
  }

  // What a Clip with these bounds would let through.
  Bounds InsideOf(ValueId mask) const {
    if (const Node* both = Producer(mask, "And")) {
      for (size_t i = 0; i < 2; ++i) {
        Bounds a = InsideOf(both->input(i));
        const Bounds b = InsideOf(both->input(1 - i));
        if (!a.low || !b.high || a.high || b.low || a.x != b.x) continue;
        a.high = b.high;
        return a;
      }
    } else if (const Node* least = Producer(mask, "GreaterOrEqual")) {
      return {.x = least->input(0), .low = least->input(1), .high = {}};
    } else if (const Node* most = Producer(mask, "LessOrEqual")) {
      return {.x = most->input(0), .low = {}, .high = most->input(1)};
    }
    return {};
  }

  Bounds OutsideOf(ValueId mask) const {
    if (const Node* either = Producer(mask, "Or")) {
      const Node* below = Producer(either->input(0), "Less");
      const Node* above = Producer(either->input(1), "Greater");
      if (below == nullptr || above == nullptr) return {};
      const Node* most = Producer(above->input(0), "Max");
      if (most == nullptr || most->inputs != below->inputs) return {};
      return {.x = below->input(0),
              .low = below->input(1),
              .high = above->input(1)};
    }
    if (const Node* below = Producer(mask, "Less")) {
      return {.x = below->input(0), .low = below->input(1), .high = {}};
    }
    if (const Node* above = Producer(mask, "Greater")) {
      return {.x = above->input(0), .low = {}, .high = above->input(1)};
    }
    return {};
  }

  // A Clip with these bounds makes sure that they are single numbers.
  bool HasClip(const Bounds& bounds) const {
    for (NodeId id : consumers_[static_cast<size_t>(bounds.x.index)]) {
      const Node& node = graph_.node(id);
      if (node.domain == kOnnx && node.op_type == "Clip" &&
          node.input(0) == bounds.x && node.input(1) == bounds.low &&
          node.input(2) == bounds.high) {
        return true;
      }
    }
    return false;
  }

  static bool IsFloat(DataType type) {
    return type == DataType::kFloat32 || type == DataType::kFloat64;
  }

  void Become(Node& node, ValueId dy, const Bounds& bounds) {
    if (!bounds.x || !dy || !HasClip(bounds)) return;
    const ValueType& type = graph_.value(bounds.x).type;
    const ValueType& of_dy = graph_.value(dy).type;
    if (!IsFloat(type.element) || of_dy.element != type.element) return;
    node.op_type = "ClipGrad";
    node.domain = kInternal;
    node.inputs = {dy, bounds.x, bounds.low, bounds.high};
    node.attributes.clear();
    changed_ = true;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<std::vector<NodeId>> consumers_;
  bool changed_ = false;
};

}  // namespace

void FuseClipGrad(Graph& graph) { ClipGradFuser(graph).Run(); }

}  // namespace strop
