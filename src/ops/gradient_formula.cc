// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient_formula.h"

#include <map>
#include <set>

#include "ops/registry.h"

namespace strop {
namespace {

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 ||
         type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// Walks back through the nodes of a formula, as autodiff does through a
// graph.
class FormulaWalk {
 public:
  FormulaWalk(GradientContext& c, std::vector<NodeId> nodes)
      : context_(c), builder_(c.build()), nodes_(std::move(nodes)) {
    for (size_t i = 0; i < c.input_count(); ++i)
      if (c.needs(i)) depends_.insert(c.x(i).id);
    for (const NodeId id : nodes_) {
      const Node& node = graph().node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (Needs(node, i)) MarkOutputs(node);
    }
  }

  void Contribute(ValueId value, Var gradient) {
    if (gradient && depends_.contains(value)) parts_[value].push_back(gradient);
  }

  void Run() {
    for (auto id = nodes_.rbegin(); id != nodes_.rend(); ++id) RunNode(*id);
  }

  // An input that stands in several places has one gradient in all.
  void SetInputs() {
    std::set<ValueId> done;
    for (size_t i = 0; i < context_.input_count(); ++i) {
      if (!context_.needs(i)) continue;
      const ValueId input = context_.x(i).id;
      if (!done.insert(input).second) continue;
      if (const Var gradient = GradientOf(input)) context_.Set(i, gradient);
    }
  }

 private:
  Graph& graph() { return builder_.graph(); }

  const OpDef& OpOf(const Node& node) {
    const OpDef* op =
        FindOp(node.domain, node.op_type, graph().opset(node.domain));
    if (op == nullptr) {
      context_.Fail("has a gradient by way of {}, which opset {} lacks",
                    node.op_type, graph().opset(node.domain));
    }
    return *op;
  }

  bool Needs(const Node& node, size_t i) {
    return depends_.contains(node.inputs[i]) &&
           !OpOf(node).stops_gradient.contains(i);
  }

  void MarkOutputs(const Node& node) {
    for (const ValueId output : node.outputs)
      if (output && IsFloat(builder_.type(builder_.Of(output))))
        depends_.insert(output);
  }

  Var GradientOf(ValueId value) {
    const auto found = parts_.find(value);
    if (found == parts_.end()) return {};
    std::vector<Var>& parts = found->second;
    if (parts.size() > 1) parts = {builder_.Op("Sum", parts)};
    if (!builder_.dims(parts[0]))
      builder_.SetDims(parts[0], builder_.dims(builder_.Of(value)));
    return parts[0];
  }

  void RunNode(NodeId id) {
    const Node node = graph().node(id);
    std::vector<ValueId> gradients;
    bool any = false;
    for (const ValueId output : node.outputs) {
      gradients.push_back(output ? GradientOf(output).id : ValueId{});
      any = any || gradients.back();
    }
    std::vector<bool> needs;
    bool needs_any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      needs.push_back(Needs(node, i));
      needs_any = needs_any || needs.back();
    }
    if (!any || !needs_any) return;
    const OpDef& op = OpOf(node);
    if (op.gradient == nullptr) {
      context_.Fail("has a gradient by way of {}, which has none",
                    node.op_type);
    }
    GradientContext inner(builder_, id, needs, std::move(gradients));
    op.gradient(inner);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (needs[i])
        Contribute(node.inputs[i], builder_.Of(inner.gradients()[i]));
  }

  GradientContext& context_;
  GraphBuilder& builder_;
  std::vector<NodeId> nodes_;
  std::set<ValueId> depends_;
  std::map<ValueId, std::vector<Var>> parts_;
};

}  // namespace

void DifferentiateFormula(GradientContext& c, Formula formula) {
  const Graph& graph = c.build().graph();
  const size_t before = graph.order().size();
  const std::vector<Var> outputs = formula(c);
  const auto order = graph.order();
  FormulaWalk walk(
      c, {order.begin() + static_cast<std::ptrdiff_t>(before), order.end()});
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && c.has_dy(i)) walk.Contribute(outputs[i].id, c.dy(i));
  walk.Run();
  walk.SetInputs();
}

}  // namespace strop
