// SPDX-License-Identifier: Apache-2.0
#include "ops/graph_builder.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "base/throw.h"
#include "strop/op.h"

namespace strop {
namespace {

constexpr int64_t kReduceSumAxesInput = 13;
constexpr int64_t kReshapeAllowsZero = 14;

void WriteScalar(double value, const Tensor& tensor) {
  switch (tensor.type()) {
    case DataType::kFloat32:
      tensor.values<float>()[0] = static_cast<float>(value);
      return;
    case DataType::kFloat64:
      tensor.values<double>()[0] = value;
      return;
    case DataType::kFloat16:
      tensor.values<Float16>()[0] = ToFloat16(static_cast<float>(value));
      return;
    case DataType::kBfloat16:
      tensor.values<Bfloat16>()[0] = ToBfloat16(static_cast<float>(value));
      return;
    case DataType::kInt64:
      tensor.values<int64_t>()[0] = static_cast<int64_t>(value);
      return;
    case DataType::kInt32:
      tensor.values<int32_t>()[0] = static_cast<int32_t>(value);
      return;
    case DataType::kBool:
      tensor.values<bool>()[0] = value != 0;
      return;
    default:
      Throw(ErrorCode::kNotImplemented, "no constant of {} can be made here",
            DataTypeName(tensor.type()));
  }
}

bool Holds(const TensorData& data, const Tensor& tensor) {
  return data.type == tensor.type() &&
         std::ranges::equal(data.dims, tensor.shape().dims()) &&
         data.bytes.size() == tensor.byte_count() &&
         std::memcmp(data.bytes.data(), tensor.data(), data.bytes.size()) == 0;
}

}  // namespace

bool SameDimension(const Dimension& a, const Dimension& b) {
  if (a.value || b.value) return a.value == b.value;
  return !a.symbol.empty() && a.symbol == b.symbol;
}

Var GraphBuilder::Op(std::string_view op_type, std::span<const Var> inputs,
                     const Attributes& attributes, std::string_view domain,
                     DataType type) {
  if (type == DataType::kUndefined && !inputs.empty() && inputs[0])
    type = this->type(inputs[0]);
  const DataType types[] = {type == DataType::kUndefined ? DataType::kFloat32
                                                         : type};
  return Ops(op_type, inputs, types, attributes, domain)[0];
}

std::vector<Var> GraphBuilder::Ops(std::string_view op_type,
                                   std::span<const Var> inputs,
                                   std::span<const DataType> types,
                                   const Attributes& attributes,
                                   std::string_view domain) {
  Node node;
  node.name = fmt::format("{}{}_{}", prefix_, op_type, emitted_++);
  node.op_type = op_type;
  node.domain = domain;
  for (const Var input : inputs) node.inputs.push_back(input.id);
  while (!node.inputs.empty() && !node.inputs.back()) node.inputs.pop_back();
  for (const auto& [name, value] : attributes) node.SetAttribute(name, value);
  std::vector<Var> outputs;
  for (size_t i = 0; i < types.size(); ++i) {
    ValueId id;
    if (types[i] != DataType::kUndefined) {
      id = graph_.AddValue(
          graph_.FreshName(i == 0 ? node.name
                                  : fmt::format("{}_output{}", node.name, i)),
          ValueType::OfTensor(types[i], std::nullopt));
    }
    node.outputs.push_back(id);
    outputs.push_back({this, id});
  }
  if (!domain.empty() && graph_.opset(domain) == 0)
    graph_.opset_imports[std::string(domain)] = 1;
  graph_.AddNode(std::move(node));
  return outputs;
}

Var GraphBuilder::AddConstant(std::string_view stem, const Tensor& tensor) {
  const ValueId there = graph_.Find(stem);
  if (there && graph_.value(there).initializer &&
      Holds(*graph_.value(there).initializer, tensor)) {
    return {this, there};
  }
  return Constant(stem, tensor);
}

Var GraphBuilder::Constant(std::string_view name, const Tensor& tensor) {
  return {this, graph_.AddInitializer(
                    TensorData::Copy(graph_.FreshName(name), tensor))};
}

Var GraphBuilder::Scalar(double value, DataType type) {
  const OwnedTensor tensor(type, {});
  WriteScalar(value, tensor.view());
  return AddConstant(fmt::format("constant_{}_{}", DataTypeName(type), value),
                     tensor.view());
}

Var GraphBuilder::Int(int64_t value) {
  return Scalar(static_cast<double>(value), DataType::kInt64);
}

Var GraphBuilder::Ints(std::vector<int64_t> values) {
  const OwnedTensor tensor(DataType::kInt64,
                           {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, tensor.view().values<int64_t>().begin());
  std::string stem = "constant_ints";
  for (const int64_t value : values) stem += fmt::format("_{}", value);
  return AddConstant(stem, tensor.view());
}

Var GraphBuilder::Shape(Var x) {
  return Op("Shape", {x}, {}, kOnnx, DataType::kInt64);
}

Var GraphBuilder::Cast(Var x, DataType type) {
  if (this->type(x) == type) return x;
  return Op("Cast", {x}, {{"to", static_cast<int64_t>(type)}}, kOnnx, type);
}

// Shapes that are computed mean a size of 0 by 0. One that a rule writes down
// keeps the size of x there.
Var GraphBuilder::Reshape(Var x, Var shape) {
  if (!ConstantData(shape)) return ReshapeLiterally(x, shape);
  return Op("Reshape", {x, shape});
}

Var GraphBuilder::Unsqueeze(Var x, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  return Op("Unsqueeze", {x, Ints(std::move(axes))});
}

Var GraphBuilder::Squeeze(Var x, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  return Op("Squeeze", {x, Ints(std::move(axes))});
}

Var GraphBuilder::Transpose(Var x, std::vector<int64_t> perm) {
  return Op("Transpose", {x}, {{"perm", std::move(perm)}});
}

Var GraphBuilder::ReduceSum(Var x, std::vector<int64_t> axes, bool keepdims) {
  const Attributes keep = {{"keepdims", int64_t{keepdims}}};
  if (axes.empty()) return Op("ReduceSum", {x}, keep);
  return Op("ReduceSum", {x, Ints(std::move(axes))}, keep);
}

// Axes that are known when the graph runs only; none leave x as it is.
Var GraphBuilder::ReduceSumAxes(Var x, Var axes, bool keepdims) {
  const Attributes attributes = {{"keepdims", int64_t{keepdims}},
                                 {"noop_with_empty_axes", int64_t{1}}};
  if (graph_.opset(kOnnx) >= kReduceSumAxesInput)
    return Op("ReduceSum", {x, axes}, attributes);
  return MicrosoftOp("ReduceSumTraining", {x, axes}, attributes);
}

Var GraphBuilder::Where(Var condition, Var a, Var b) {
  return Op("Where", {condition, a, b}, {}, kOnnx, type(a));
}

Var GraphBuilder::Compare(std::string_view op_type, Var a, Var b) {
  return Op(op_type, {a, b}, {}, kOnnx, DataType::kBool);
}

Var GraphBuilder::Zeros(Var shape, DataType type) {
  const OwnedTensor zero(type, {1});
  WriteScalar(0, zero.view());
  return Op("ConstantOfShape", {shape},
            {{"value", TensorData::Copy("", zero.view())}}, kOnnx, type);
}

DataType GraphBuilder::type(Var x) const {
  const Value& value = graph_.value(x.id);
  if (value.type.element != DataType::kUndefined) return value.type.element;
  return value.initializer ? value.initializer->type : DataType::kUndefined;
}

const std::optional<std::vector<Dimension>>& GraphBuilder::dims(Var x) const {
  return graph_.value(x.id).type.dims;
}

std::optional<size_t> GraphBuilder::rank(Var x) const {
  const auto& known = dims(x);
  if (!known) return std::nullopt;
  return known->size();
}

std::optional<std::vector<int64_t>> GraphBuilder::static_dims(Var x) const {
  const auto& known = dims(x);
  if (!known) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dimension& dimension : *known) {
    if (!dimension.value) return std::nullopt;
    numbers.push_back(*dimension.value);
  }
  return numbers;
}

// The value of an initializer or of a Constant node; null for others.
const TensorData* GraphBuilder::ConstantData(Var x) const {
  if (!x) return nullptr;
  const Value& value = graph_.value(x.id);
  if (value.initializer && !value.is_input) return &*value.initializer;
  if (!value.producer) return nullptr;
  const Node& producer = graph_.node(value.producer);
  const Attribute* constant = producer.op_type == "Constant"
                                  ? producer.FindAttribute("value")
                                  : nullptr;
  return constant ? std::get_if<TensorData>(&constant->value) : nullptr;
}

std::optional<std::vector<int64_t>> GraphBuilder::ConstantInts(Var x) const {
  const TensorData* data = ConstantData(x);
  std::vector<int64_t> numbers;
  const auto read = [&]<class T>() {
    for (const T number : data->view().values<T>()) numbers.push_back(number);
  };
  if (data == nullptr || !DispatchType(Indices{}, data->type, read))
    return std::nullopt;
  return numbers;
}

std::optional<double> GraphBuilder::ConstantScalar(Var x) const {
  const TensorData* data = ConstantData(x);
  double number = 0;
  const auto read = [&]<class T>() {
    number = static_cast<double>(data->view().values<T>()[0]);
  };
  if (data == nullptr || data->view().element_count() != 1 ||
      !DispatchType(Numbers{}, data->type, read)) {
    return std::nullopt;
  }
  return number;
}

Var GraphBuilder::ReduceToShapeOf(Var gradient, Var full, Var target) {
  if (full.id == target.id) return gradient;
  const auto& from = dims(full);
  const auto& to = dims(target);
  if (!from || !to || to->size() > from->size())
    return ReduceDynamically(gradient, full, target);
  const size_t lead = from->size() - to->size();
  std::vector<int64_t> axes;
  bool ones_inside = false;
  for (size_t i = 0; i < from->size(); ++i) {
    if (i < lead) {
      axes.push_back(static_cast<int64_t>(i));
      continue;
    }
    const Dimension& wide = (*from)[i];
    const Dimension& narrow = (*to)[i - lead];
    if (SameDimension(wide, narrow)) continue;
    // A size that may turn out to be 1 is one to look at then.
    if (narrow.value != 1) return ReduceDynamically(gradient, full, target);
    axes.push_back(static_cast<int64_t>(i));
    ones_inside = true;
  }
  if (axes.empty()) return gradient;
  if (lead == 0) return ReduceSum(gradient, axes, /*keepdims=*/true);
  const Var sum = ReduceSum(gradient, axes, /*keepdims=*/false);
  return ones_inside ? ReshapeLiterally(sum, Shape(target)) : sum;
}

Var GraphBuilder::ReduceDynamically(Var gradient, Var full, Var target) {
  const Var shape = Shape(target);
  const DataType types[] = {DataType::kInt64};
  const Var shapes[] = {shape, Shape(full)};
  const Var axes =
      Ops("BroadcastGradientArgs", shapes, types, {}, kMicrosoft)[0];
  return ReshapeLiterally(ReduceSumAxes(gradient, axes, /*keepdims=*/true),
                          shape);
}

// A 0 in the shape is a size of 0, not that of x.
Var GraphBuilder::ReshapeLiterally(Var x, Var shape) {
  Attributes attributes;
  if (graph_.opset(kOnnx) >= kReshapeAllowsZero)
    attributes.emplace_back("allowzero", int64_t{1});
  return Op("Reshape", {x, shape}, attributes);
}

// --- Operators

namespace {

Var Binary(std::string_view op_type, Var a, Var b) {
  return a.builder->Op(op_type, {a, b});
}

Var Like(Var a, double value) {
  return a.builder->Scalar(value, a.builder->type(a));
}

}  // namespace

Var operator+(Var a, Var b) { return Binary("Add", a, b); }
Var operator-(Var a, Var b) { return Binary("Sub", a, b); }
Var operator*(Var a, Var b) { return Binary("Mul", a, b); }
Var operator/(Var a, Var b) { return Binary("Div", a, b); }
Var operator-(Var a) { return a.builder->Op("Neg", {a}); }
Var operator+(Var a, double b) { return a + Like(a, b); }
Var operator+(double a, Var b) { return Like(b, a) + b; }
Var operator-(Var a, double b) { return a - Like(a, b); }
Var operator-(double a, Var b) { return Like(b, a) - b; }
Var operator*(Var a, double b) { return a * Like(a, b); }
Var operator*(double a, Var b) { return Like(b, a) * b; }
Var operator/(Var a, double b) { return a / Like(a, b); }
Var operator/(double a, Var b) { return Like(b, a) / b; }

}  // namespace strop
