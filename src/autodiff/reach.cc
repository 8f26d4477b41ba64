// SPDX-License-Identifier: Apache-2.0
#include "autodiff/reach.h"

#include <algorithm>

#include "base/throw.h"
#include "ops/registry.h"

namespace strop {

bool IsDifferentiable(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  // A type that nobody knows may be one.
  if (value.type.kind == ValueType::Kind::kOther ||
      value.type.kind == ValueType::Kind::kTensorList)
    return false;
  switch (value.type.element) {
    case DataType::kUndefined:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
      return true;
    default:
      return false;
  }
}

Reach::Reach(const Graph& graph, std::span<const ValueId> outputs,
             std::span<const ValueId> wrt,
             std::span<const CustomOpDomain* const> custom)
    : graph_(graph),
      custom_(custom),
      depends_(graph.value_count()),
      reaching_(graph.value_count()),
      backward_node_(graph.node_count()),
      from_(graph.value_count()) {
  GoForward(wrt);
  GoBackward(outputs);
}

const OpDef* Reach::OpOf(const Node& node) const {
  return FindOp(node.domain, node.op_type, graph_.opset(node.domain), custom_);
}

bool Reach::Carries(const Node& node, size_t input) const {
  const ValueId id = node.inputs[input];
  if (!id || !depends_[static_cast<size_t>(id.index)]) return false;
  const OpDef* op = OpOf(node);
  return op == nullptr || !op->stops_gradient.contains(input);
}

bool Reach::Needs(NodeId id, size_t input) const {
  const Node& node = graph_.node(id);
  return Carries(node, input) &&
         reaching_[static_cast<size_t>(node.inputs[input].index)];
}

bool Reach::Captures(const Node& node) const {
  const bool has_body =
      std::ranges::any_of(node.attributes, [](const Attribute& attribute) {
        return std::holds_alternative<std::shared_ptr<const Graph>>(
            attribute.value);
      });
  return has_body && std::ranges::any_of(graph_.Reads(node), [&](ValueId id) {
           return depends_[static_cast<size_t>(id.index)];
         });
}

ValueId Reach::CapturedOf(const Node& node) const {
  for (const ValueId id : graph_.Reads(node))
    if (depends_[static_cast<size_t>(id.index)]) return id;
  return {};
}

void Reach::MarkOutputs(const Node& node, ValueId from) {
  for (const ValueId output : node.outputs) {
    if (!output || !IsDifferentiable(graph_, output)) continue;
    depends_[static_cast<size_t>(output.index)] = true;
    from_[static_cast<size_t>(output.index)] = from;
  }
}

void Reach::GoForward(std::span<const ValueId> wrt) {
  for (const ValueId id : wrt)
    depends_[static_cast<size_t>(id.index)] = IsDifferentiable(graph_, id);
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    bool marked = false;
    for (size_t i = 0; i < node.inputs.size() && !marked; ++i) {
      marked = Carries(node, i);
      if (marked) MarkOutputs(node, node.inputs[i]);
    }
    if (!marked && Captures(node)) MarkOutputs(node, CapturedOf(node));
  }
}

void Reach::GoBackward(std::span<const ValueId> outputs) {
  for (const ValueId id : outputs)
    reaching_[static_cast<size_t>(id.index)] =
        depends_[static_cast<size_t>(id.index)];
  const auto order = graph_.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph_.node(*id);
    bool wanted = false;
    for (const ValueId output : node.outputs)
      wanted =
          wanted || (output && reaching_[static_cast<size_t>(output.index)]);
    if (!wanted) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Carries(node, i)) continue;
      reaching_[static_cast<size_t>(node.inputs[i].index)] = true;
      backward_node_[static_cast<size_t>(id->index)] = true;
    }
    if (!Captures(node)) continue;
    backward_node_[static_cast<size_t>(id->index)] = true;
    for (const ValueId read : graph_.Reads(node))
      if (depends_[static_cast<size_t>(read.index)])
        reaching_[static_cast<size_t>(read.index)] = true;
  }
}

std::string Reach::WayTo(NodeId blocked) const {
  constexpr int kMostSteps = 8;
  const Node& node = graph_.node(blocked);
  ValueId at;
  for (size_t i = 0; i < node.inputs.size() && !at; ++i)
    if (Carries(node, i)) at = node.inputs[i];
  if (!at) at = CapturedOf(node);
  std::string way;
  int steps = 0;
  for (; from_[static_cast<size_t>(at.index)] && steps < kMostSteps; ++steps) {
    way = fmt::format(" -> \"{}\"{}", graph_.value_name(at), way);
    at = from_[static_cast<size_t>(at.index)];
  }
  if (steps == kMostSteps) {
    while (from_[static_cast<size_t>(at.index)])
      at = from_[static_cast<size_t>(at.index)];
    way = " -> ..." + way;
  }
  return fmt::format("\"{}\"{}", graph_.value_name(at), way);
}

std::vector<Blocker> Reach::Blockers() const {
  std::vector<Blocker> blockers;
  for (const NodeId id : graph_.order()) {
    if (!Contains(id)) continue;
    const Node& node = graph_.node(id);
    const OpDef* op = OpOf(node);
    if (op != nullptr && op->gradient != nullptr) continue;
    const std::string_view why = op == nullptr ? "is an unknown op"
                                 : op->not_differentiable
                                     ? "is not differentiable"
                                     : "has no gradient";
    blockers.push_back(
        {id, fmt::format("{} {} (on the way from {})", Describe(graph_, node),
                         why, WayTo(id))});
  }
  return blockers;
}

}  // namespace strop
