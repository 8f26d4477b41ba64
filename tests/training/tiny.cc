// SPDX-License-Identifier: Apache-2.0
#include "training/tiny.h"

#include <algorithm>

#include "graph/onnx_io.h"

namespace strop::tiny {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

ValueType FloatType(std::initializer_list<Dimension> dims) {
  return ValueType::OfTensor(DataType::kFloat32, std::vector<Dimension>(dims));
}

Dimension Number(int64_t n) { return {.value = n, .symbol = {}}; }
Dimension Symbol(const char* name) { return {.value = {}, .symbol = name}; }

Model EmptyModel(const std::string& name) {
  Model model;
  model.ir_version = kIrVersion;
  model.opset_imports = {{"", kOpset}, {"com.microsoft", 1}};
  model.graph.opset_imports = {{"", kOpset}, {"com.microsoft", 1}};
  model.graph.name = name;
  return model;
}

ValueId AddNode(
    Graph& graph, const std::string& op, std::vector<ValueId> inputs,
    const std::string& output, const std::string& domain = "",
    std::vector<std::pair<std::string, Attribute::Value>> attributes = {}) {
  const ValueId result = graph.AddValue(output);
  Node node;
  node.name = output;
  node.op_type = op;
  node.domain = domain;
  node.inputs = std::move(inputs);
  node.outputs = {result};
  for (auto& [key, value] : attributes) {
    node.SetAttribute(key, std::move(value));
  }
  graph.AddNode(std::move(node));
  return result;
}

ValueId AddForward(Graph& graph, ValueId x, ValueId w, ValueId b) {
  const ValueId scaled = AddNode(graph, "Mul", {x, w}, "scaled");
  const ValueId y = AddNode(graph, "Add", {scaled, b}, "y");
  const ValueId loss =
      AddNode(graph, "ReduceSum", {y}, "loss", "", {{"keepdims", int64_t{0}}});
  graph.value(loss).type = FloatType({});
  graph.value(y).type = FloatType({Symbol("batch"), Number(2)});
  return loss;
}

ValueType ListType() {
  ValueType type;
  type.kind = ValueType::Kind::kTensorList;
  type.element = DataType::kFloat32;
  return type;
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Model TrainModel() {
  Model model = EmptyModel("train");
  Graph& graph = model.graph;
  const ValueId x =
      graph.AddInput("x", FloatType({Symbol("batch"), Number(2)}));
  const ValueId w = graph.AddInput("w", FloatType({Number(2)}));
  const ValueId b = graph.AddInput("b", FloatType({Number(2)}));
  const ValueId buffer =
      graph.AddInput("w_grad.accumulation.buffer", FloatType({Number(2)}));
  const ValueId reset = graph.AddInput(
      "lazy_reset_grad",
      ValueType::OfTensor(DataType::kBool, std::vector{Number(1)}));
  const ValueId loss = AddForward(graph, x, w, b);
  int64_t zero = 0;
  const ValueId axes =
      graph.AddInitializer(TensorData::Copy("axes", Tensor(Shape{1}, &zero)));
  const ValueId gradient = AddNode(graph, "ReduceSum", {x, axes}, "w_grad", "",
                                   {{"keepdims", int64_t{0}}});
  const ValueId flag =
      AddNode(graph, "InPlaceAccumulatorV2", {buffer, gradient, reset},
              "w_grad.accumulation.out", "com.microsoft");
  graph.value(flag).type =
      ValueType::OfTensor(DataType::kBool, std::vector{Number(1)});
  graph.SetOutputs({loss, graph.Find("y"), flag});
  return model;
}

Model EvalModel() {
  Model model = EmptyModel("eval");
  Graph& graph = model.graph;
  // Not in the order of the training graph: values are bound by name.
  const ValueId b = graph.AddInput("b", FloatType({Number(2)}));
  const ValueId w = graph.AddInput("w", FloatType({Number(2)}));
  const ValueId x =
      graph.AddInput("x", FloatType({Symbol("batch"), Number(2)}));
  const ValueId loss = AddForward(graph, x, w, b);
  graph.SetOutputs({loss, graph.Find("y")});
  return model;
}

Model OptimizerModel(const std::string& op_type) {
  Model model = EmptyModel("optimizer");
  Graph& graph = model.graph;
  const bool is_sgd = op_type == "SGDOptimizerV2";
  const ValueId rate = graph.AddInput("learning_rate", FloatType({Number(1)}));
  const ValueId step = graph.AddInput(
      "step", ValueType::OfTensor(DataType::kInt64, std::vector{Number(1)}));
  std::vector<ValueId> inputs = {rate};
  if (!is_sgd) inputs.push_back(step);
  inputs.push_back(graph.AddInput("params", ListType()));
  inputs.push_back(graph.AddInput("gradients", ListType()));
  const ValueId first = graph.AddInput("first_order_moments", ListType());
  if (!is_sgd) {
    inputs.push_back(first);
    inputs.push_back(graph.AddInput("second_order_moments", ListType()));
  }
  const ValueId flag =
      AddNode(graph, op_type, inputs, "updated", "com.microsoft");
  graph.value(flag).type =
      ValueType::OfTensor(DataType::kBool, std::vector{Number(1)});
  graph.SetOutputs({flag});
  return model;
}

Models Models::Default(const std::string& op_type) {
  return {.train = EncodeOnnx(TrainModel()),
          .eval = EncodeOnnx(EvalModel()),
          .optimizer = EncodeOnnx(OptimizerModel(op_type))};
}

ModelIdentifiers Models::identifiers() const {
  ModelIdentifiers identifiers = {.train = Bytes(train)};
  if (!eval.empty()) identifiers.eval = Bytes(eval);
  if (!optimizer.empty()) identifiers.optimizer = Bytes(optimizer);
  return identifiers;
}

CheckpointState State(const Environment& environment) {
  CheckpointState state(environment);
  AddParameter(state, "w", /*requires_grad=*/true, {1, -2});
  AddParameter(state, "b", /*requires_grad=*/false, {0.5f, 0.25f});
  return state;
}

void AddParameter(CheckpointState& state, const std::string& name,
                  bool requires_grad, std::vector<float> values) {
  ParameterStore& store = state.store();
  std::vector<std::pair<Parameter, OwnedTensor>> all;
  for (const Parameter& parameter : store.parameters) {
    all.emplace_back(parameter, OwnedTensor(parameter.value));
  }
  Parameter added;
  added.name = name;
  added.requires_grad = requires_grad;
  all.emplace_back(
      added, OwnedTensor(Tensor(Shape{std::ssize(values)}, values.data())));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first.name < b.first.name;
  });
  std::vector<TensorInfo> infos;
  for (const auto& [parameter, value] : all) {
    infos.push_back({value.type(), value.shape()});
  }
  store.values = TensorBlock(infos);
  store.parameters.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    Parameter& parameter = store.parameters.emplace_back(all[i].first);
    parameter.value = store.values.tensors()[i];
    std::ranges::copy(all[i].second.values<float>(),
                      parameter.value.values<float>().begin());
  }
}

OwnedTensor FloatTensor(const Shape& shape,
                        std::initializer_list<float> values) {
  OwnedTensor tensor(DataType::kFloat32, shape);
  std::ranges::copy(values, tensor.values<float>().begin());
  return tensor;
}

std::vector<float> Values(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

Thrown ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

float Session::Step(float x0, float x1) {
  const OwnedTensor x = FloatTensor({1, 2}, {x0, x1});
  std::vector<OwnedTensor> outputs;
  module.TrainStep({&x.view(), 1}, &outputs);
  return outputs.at(0).values<float>()[0];
}

}  // namespace strop::tiny
