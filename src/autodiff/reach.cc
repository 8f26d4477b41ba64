// SPDX-License-Identifier: Apache-2.0
#include "autodiff/reach.h"

#include <algorithm>

#include "autodiff/control_flow.h"
#include "base/throw.h"
#include "ops/infer_shapes.h"
#include "ops/number.h"
#include "ops/registry.h"

namespace strop {

bool IsDifferentiable(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  // A type that nobody knows may be one.
  if (value.type.kind == ValueType::Kind::kOther ||
      value.type.kind == ValueType::Kind::kTensorList)
    return false;
  return value.type.element == DataType::kUndefined ||
         ops::IsFloatingPoint(value.type.element);
}

bool IsQuantized(const Graph& graph, ValueId id) {
  const NodeId producer = graph.value(id).producer;
  return producer && graph.node(producer).op_type == "QuantizeLinear";
}

Reach::Reach(const Graph& graph, std::span<const ValueId> outputs,
             std::span<const ValueId> wrt,
             std::span<const CustomOpDomain* const> custom)
    : graph_(graph),
      custom_(custom),
      depends_(graph.value_count()),
      reaching_(graph.value_count()),
      backward_node_(graph.node_count()),
      from_(graph.value_count()),
      to_(graph.value_count()) {
  GoForward(wrt);
  GoBackward(outputs);
}

const OpDef* Reach::OpOf(const Node& node) const {
  return FindOp(node.domain, node.op_type, graph_.opset(node.domain), custom_);
}

bool Reach::Carries(const Node& node, size_t input) const {
  const ValueId id = node.inputs[input];
  if (!id || !depends_[static_cast<size_t>(id.index)]) return false;
  if (IsQuantized(graph_, id) && node.op_type != "DequantizeLinear")
    return false;
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
    if (!output) continue;
    if (!IsDifferentiable(graph_, output) && !IsQuantized(graph_, output))
      continue;
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

void Reach::Reached(ValueId id, ValueId through) {
  if (Reaches(id)) return;
  reaching_[static_cast<size_t>(id.index)] = true;
  to_[static_cast<size_t>(id.index)] = through;
}

void Reach::GoBackward(std::span<const ValueId> outputs) {
  for (const ValueId id : outputs)
    reaching_[static_cast<size_t>(id.index)] =
        depends_[static_cast<size_t>(id.index)];
  const auto order = graph_.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph_.node(*id);
    ValueId wanted;
    for (const ValueId output : node.outputs)
      if (output && !wanted && Reaches(output)) wanted = output;
    if (!wanted) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!Carries(node, i)) continue;
      Reached(node.inputs[i], wanted);
      backward_node_[static_cast<size_t>(id->index)] = true;
    }
    if (!Captures(node)) continue;
    backward_node_[static_cast<size_t>(id->index)] = true;
    for (const ValueId read : graph_.Reads(node))
      if (depends_[static_cast<size_t>(read.index)]) Reached(read, wanted);
  }
}

// "a" -> "b" -> ... -> "c": at most eight values of the chain that begins at
// `first`.
std::string Reach::Chain(ValueId first, const std::vector<ValueId>& next,
                         bool backwards) const {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  ValueId last;
  for (ValueId at = first; at; at = next[static_cast<size_t>(at.index)]) {
    last = at;
    if (names.size() < kMost)
      names.push_back(fmt::format("\"{}\"", graph_.value_name(at)));
  }
  const std::string end = fmt::format("\"{}\"", graph_.value_name(last));
  if (!names.empty() && names.back() != end) {
    names.push_back("...");
    names.push_back(end);
  }
  if (backwards) std::ranges::reverse(names);
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : " -> ") + name;
  return text;
}

// From a value of wrt through the node to an output.
std::string Reach::WayThrough(NodeId blocked) const {
  const Node& node = graph_.node(blocked);
  ValueId in, out;
  for (size_t i = 0; i < node.inputs.size() && !in; ++i)
    if (Carries(node, i)) in = node.inputs[i];
  if (!in) in = CapturedOf(node);
  for (const ValueId output : node.outputs)
    if (output && !out && Reaches(output)) out = output;
  return fmt::format("{} -> here -> {}", Chain(in, from_, true),
                     Chain(out, to_, false));
}

// Sub-graphs are differentiated by their float inputs and by what they
// capture.
void Reach::AddBlockersInside(NodeId id, std::vector<Blocker>* to) const {
  const Node& node = graph_.node(id);
  for (const auto& [name, forward] : BodiesOf(node)) {
    Graph body = TypedBody(graph_, *forward);
    InferShapes(body, custom_);
    std::vector<ValueId> outputs, wrt;
    for (const ValueId output : body.outputs())
      if (IsDifferentiable(body, output)) outputs.push_back(output);
    for (const ValueId input : body.inputs())
      if (IsDifferentiable(body, input)) wrt.push_back(input);
    for (const ValueId value : CapturedBy(graph_, node)) {
      const ValueId inside = body.Find(graph_.value_name(value));
      if (inside && depends_[static_cast<size_t>(value.index)])
        wrt.push_back(inside);
    }
    for (const Blocker& blocker : Reach(body, outputs, wrt, custom_).Blockers())
      to->push_back({id, fmt::format("{}, in {}", blocker.reason,
                                     Describe(graph_, node))});
  }
}

std::vector<Blocker> Reach::Blockers() const {
  std::vector<Blocker> blockers;
  for (const NodeId id : graph_.order()) {
    if (!Contains(id)) continue;
    const Node& node = graph_.node(id);
    if (IsControlFlow(graph_, id)) {
      const std::string fault = BodyFault(graph_, id, custom_);
      if (!fault.empty()) {
        blockers.push_back({id, fault});
      } else {
        AddBlockersInside(id, &blockers);
      }
      continue;
    }
    const OpDef* op = OpOf(node);
    if (op != nullptr && op->gradient != nullptr) {
      try {
        CheckArity(*op, OpNode(graph_, node));
      } catch (const Error& error) {
        blockers.push_back({id, error.what()});
      }
      continue;
    }
    const std::string_view why = op == nullptr ? "is an unknown op"
                                 : op->not_differentiable
                                     ? "is not differentiable"
                                     : "has no gradient";
    blockers.push_back({id, fmt::format("{} {} ({})", Describe(graph_, node),
                                        why, WayThrough(id))});
  }
  return blockers;
}

}  // namespace strop
