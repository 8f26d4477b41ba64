// SPDX-License-Identifier: Apache-2.0
//
// MaxPool(Relu(x)) = Relu(MaxPool(x)): the Relu then sees a fraction of the
// elements, and so does its gradient. Where a maximum is not above zero, the
// indices may differ, but no gradient passes there.
#include <optional>
#include <vector>

#include "passes/passes.h"

namespace strop {
namespace {

class PoolMover {
 public:
  explicit PoolMover(Graph& graph)
      : graph_(graph), consumers_(graph.Consumers()) {}

  void Run() {
    const std::vector<NodeId> order(graph_.order().begin(),
                                    graph_.order().end());
    bool changed = false;
    for (NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.domain == kOnnx && node.op_type == "Relu" && TryAt(id)) {
        changed = true;
      }
    }
    if (changed) graph_.SortNodes();
  }

 private:
  struct Backward {
    NodeId pool, relu;
  };

  bool Is(NodeId id, std::string_view domain, std::string_view op) const {
    const Node& node = graph_.node(id);
    return node.domain == domain && node.op_type == op;
  }

  const std::vector<NodeId>& Readers(ValueId value) const {
    return consumers_[static_cast<size_t>(value.index)];
  }

  // The gradient of the pool, whose only reader is that of the Relu; nullopt
  // where the value between them is read otherwise.
  std::optional<Backward> FindBackward(NodeId relu_grad, ValueId y,
                                       const Node& pool) const {
    const Node& relu = graph_.node(relu_grad);
    const Node* grad =
        ProducerOf(graph_, relu.input(0), kInternal, "MaxPoolGrad");
    if (relu.input(1) != y || grad == nullptr ||
        grad->inputs[1] != pool.output(1) || grad->inputs[2] != y ||
        !HasOneUse(graph_, consumers_, relu.input(0))) {
      return std::nullopt;
    }
    return Backward{graph_.value(relu.input(0)).producer, relu_grad};
  }

  bool TryAt(NodeId id) {
    const Node& relu = graph_.node(id);
    const ValueId y = relu.outputs[0];
    if (graph_.value(y).is_output) return false;
    NodeId pool;
    std::vector<NodeId> relu_grads, pool_grads;
    for (NodeId reader : Readers(y)) {
      if (Is(reader, kOnnx, "MaxPool") && !pool) {
        pool = reader;
      } else if (Is(reader, kMicrosoft, "ReluGrad")) {
        relu_grads.push_back(reader);
      } else if (Is(reader, kInternal, "MaxPoolGrad")) {
        pool_grads.push_back(reader);
      } else {
        return false;
      }
    }
    // The indices may serve the gradient only.
    if (!pool || relu_grads.size() != pool_grads.size()) return false;
    const ValueId indices = graph_.node(pool).output(1);
    if (indices && (graph_.value(indices).is_output ||
                    Readers(indices).size() != pool_grads.size())) {
      return false;
    }
    std::vector<Backward> backward;
    for (NodeId grad : relu_grads) {
      const auto found = FindBackward(grad, y, graph_.node(pool));
      if (!found) return false;
      backward.push_back(*found);
    }
    Exchange(id, pool);
    for (const Backward& one : backward) ExchangeGradients(one, id, pool);
    return true;
  }

  // y = Relu(x), p = MaxPool(y) become y' = MaxPool(x), p = Relu(y').
  void Exchange(NodeId relu_id, NodeId pool_id) {
    Node& relu = graph_.node(relu_id);
    Node& pool = graph_.node(pool_id);
    const ValueId x = relu.inputs[0], y = relu.outputs[0];
    const ValueId p = pool.outputs[0];
    const ValueId pooled =
        graph_.AddValue(graph_.FreshName(graph_.value_name(p) + "_before_relu"),
                        graph_.value(p).type);
    pool.inputs[0] = x;
    pool.outputs[0] = pooled;
    relu.inputs[0] = pooled;
    relu.outputs[0] = p;
    graph_.value(pooled).producer = pool_id;
    graph_.value(p).producer = relu_id;
    graph_.value(y).producer = {};
  }

  // dy = MaxPoolGrad(dp), dx = ReluGrad(dy, y) become dp' = ReluGrad(dp, p),
  // dx = MaxPoolGrad(dp').
  void ExchangeGradients(const Backward& backward, NodeId relu_id,
                         NodeId pool_id) {
    Node& pool = graph_.node(backward.pool);
    Node& relu = graph_.node(backward.relu);
    const ValueId dp = pool.inputs[0], dx = relu.outputs[0];
    const ValueId between = pool.outputs[0];
    relu.inputs = {dp, graph_.node(relu_id).outputs[0]};
    relu.outputs[0] = between;
    graph_.value(between).type = graph_.value(dp).type;
    pool.inputs[0] = between;
    pool.inputs[2] = graph_.node(pool_id).inputs[0];
    pool.outputs[0] = dx;
    graph_.value(between).producer = backward.relu;
    graph_.value(dx).producer = backward.pool;
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void PoolBeforeRelu(Graph& graph) { PoolMover(graph).Run(); }

}  // namespace strop
