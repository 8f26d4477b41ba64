// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"

namespace strop {

GradientContext::GradientContext(GraphBuilder& builder, NodeId node,
                                 std::vector<bool> needs,
                                 std::vector<ValueId> output_gradients)
    : builder_(builder),
      node_(node),
      needs_(std::move(needs)),
      output_gradients_(std::move(output_gradients)),
      gradients_(needs_.size()) {}

Var GradientContext::AddedOutput(size_t i, std::string_view stem,
                                 DataType type) {
  if (has_output(i)) return y(i);
  Graph& graph = builder_.graph();
  const std::string name =
      fmt::format("{}_{}", graph.value_name(forward().output(0)), stem);
  const ValueId id = graph.AddValue(graph.FreshName(name),
                                    ValueType::OfTensor(type, std::nullopt));
  Node& node = graph.node(node_);
  if (node.outputs.size() <= i) node.outputs.resize(i + 1);
  node.outputs[i] = id;
  graph.value(id).producer = node_;
  return builder_.Of(id);
}

void GradientContext::Become(std::string_view op_type,
                             std::string_view domain) {
  Graph& graph = builder_.graph();
  Node& node = graph.node(node_);
  node.op_type = op_type;
  node.domain = domain;
  if (!domain.empty() && graph.opset(domain) == 0)
    graph.opset_imports[std::string(domain)] = 1;
}

Var GradientContext::dy(size_t i) {
  return builder_.Of(has_dy(i) ? output_gradients_[i] : ValueId{});
}

Var GradientContext::dy_or_zeros(size_t i) {
  return has_dy(i) ? dy(i) : builder_.ZerosLike(y(i));
}

void GradientContext::Set(size_t i, Var gradient) {
  if (needs(i)) gradients_[i] = gradient.id;
}

void GradientContext::SetReduced(size_t i, Var gradient) {
  if (needs(i)) Set(i, builder_.ReduceToShapeOf(gradient, y(0), x(i)));
}

Attributes GradientContext::attributes() const {
  Attributes copies;
  for (const Attribute& attribute : forward().attributes)
    copies.emplace_back(attribute.name, attribute.value);
  return copies;
}

DataType WidestFloat(GradientContext& c) {
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (c.has_input(i) && c.build().type(c.x(i)) == DataType::kFloat64)
      return DataType::kFloat64;
  }
  return DataType::kFloat32;
}

}  // namespace strop
