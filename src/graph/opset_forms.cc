// SPDX-License-Identifier: Apache-2.0
//
// To the newest spelling.
#include "graph/opset_forms.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/half.h"
#include "graph/opset_form_rewriter.h"
#include "graph/subgraphs.h"

namespace strop {
namespace opset_forms {
namespace {

// Ops whose first output has the rank and type of their first input; only to
// find the rank or type of a value that nobody wrote down.
constexpr std::string_view kLikeInput[] = {"Add",
                                           "AveragePool",
                                           "BatchNormInternal",
                                           "BatchNormalization",
                                           "Clip",
                                           "Concat",
                                           "Conv",
                                           "ConvTranspose",
                                           "Div",
                                           "Dropout",
                                           "Elu",
                                           "Exp",
                                           "Gelu",
                                           "GlobalAveragePool",
                                           "GlobalMaxPool",
                                           "HardSigmoid",
                                           "HardSwish",
                                           "Identity",
                                           "InstanceNormalization",
                                           "LRN",
                                           "LayerNormalization",
                                           "LeakyRelu",
                                           "MaxPool",
                                           "Mul",
                                           "PRelu",
                                           "Pad",
                                           "Relu",
                                           "Resize",
                                           "Selu",
                                           "Sigmoid",
                                           "Softmax",
                                           "Softplus",
                                           "Sqrt",
                                           "Sub",
                                           "Sum",
                                           "Tanh",
                                           "Transpose",
                                           "Upsample"};

// Ops that change the shape, not the type.
constexpr std::string_view kTypeLikeInput[] = {
    "Expand",    "Flatten",   "Gather",     "Gemm",  "MatMul",
    "ReduceMax", "ReduceSum", "ReduceMean", "Slice", "Squeeze",
    "Unsqueeze", "Reshape",   "Split",      "Tile"};

TensorData MakeTensor(std::string name, DataType type,
                      std::vector<int64_t> dims, const void* elements,
                      size_t count) {
  const size_t size = count * DataTypeSize(type);
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  if (size > 0) std::memcpy(bytes->data(), elements, size);
  TensorData tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.bytes = *bytes;
  tensor.owner = std::move(bytes);
  return tensor;
}

template <class T>
TensorData MakeList(std::string name, const std::vector<T>& list) {
  return MakeTensor(std::move(name), DataTypeOf<T>(),
                    {static_cast<int64_t>(list.size())}, list.data(),
                    list.size());
}

template <class T>
TensorData MakeScalar(std::string name, T value) {
  return MakeTensor(std::move(name), DataTypeOf<T>(), {}, &value, 1);
}

TensorData MakeScalarOf(DataType type, std::string name, float value) {
  switch (type) {
    case DataType::kFloat64:
      return MakeScalar(std::move(name), static_cast<double>(value));
    case DataType::kFloat16:
      return MakeScalar(std::move(name), ToFloat16(value));
    case DataType::kBfloat16:
      return MakeScalar(std::move(name), ToBfloat16(value));
    default:
      return MakeScalar(std::move(name), value);
  }
}

// One node on its way to the newest spelling.
class Normalizer : public NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;
  void Normalize();

 private:
  void MoveToInputs();
  void MoveToInput(const MovedAttribute& row);
  void NormalizeConstant();
  void NormalizeBatchNormalization();
  void NormalizeDropout6();
  void NormalizeBroadcast();
  void InsertUnsqueeze(int64_t trailing_ones);
  void Remember(const Node& before);

  // The dimensions or type of a value, looked for upstream.
  std::optional<size_t> RankOf(ValueId id);
  DataType TypeOf(ValueId id);
  void SetInput(size_t position, TensorData tensor);

  std::vector<std::pair<std::string, std::shared_ptr<const void>>> made_;
};

void Normalizer::SetInput(size_t position, TensorData tensor) {
  made_.emplace_back(tensor.name, tensor.owner);
  const ValueId id = graph_.AddInitializer(std::move(tensor));
  std::vector<ValueId>& inputs = node().inputs;
  if (inputs.size() <= position) inputs.resize(position + 1);
  inputs[position] = id;
}

std::optional<size_t> Normalizer::RankOf(ValueId id) {
  constexpr int kMostSteps = 10000;
  for (int i = 0; i < kMostSteps && id; ++i) {
    const Value& value = graph_.value(id);
    if (value.type.dims) return value.type.dims->size();
    if (value.initializer) return value.initializer->dims.size();
    if (!value.producer) return std::nullopt;
    const Node& producer = graph_.node(value.producer);
    if (!Contains(kLikeInput, producer.op_type)) return std::nullopt;
    id = producer.input(0);
  }
  return std::nullopt;
}

DataType Normalizer::TypeOf(ValueId id) {
  constexpr int kMostSteps = 10000;
  for (int i = 0; i < kMostSteps && id; ++i) {
    const Value& value = graph_.value(id);
    if (value.type.element != DataType::kUndefined) return value.type.element;
    if (value.initializer) return value.initializer->type;
    if (!value.producer) break;
    const Node& producer = graph_.node(value.producer);
    if (producer.op_type == "Cast") {
      const Attribute* to = producer.FindAttribute("to");
      const auto* type = to ? std::get_if<int64_t>(&to->value) : nullptr;
      return type ? static_cast<DataType>(*type) : DataType::kFloat32;
    }
    if (!Contains(kLikeInput, producer.op_type) &&
        !Contains(kTypeLikeInput, producer.op_type)) {
      break;
    }
    id = producer.input(0);
  }
  return DataType::kFloat32;
}

void Normalizer::MoveToInput(const MovedAttribute& row) {
  const Attribute* attribute = node().FindAttribute(row.attribute);
  // An attribute of another kind stays, for the op to complain about.
  if (attribute == nullptr || node().input(row.position)) return;
  const std::string name = NameFor(row.attribute);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute->value)) {
    if (row.kind != Kind::kInts) return;
    SetInput(row.position, MakeList(name, *ints));
  } else if (const auto* i = std::get_if<int64_t>(&attribute->value)) {
    if (row.kind != Kind::kOneInt) return;
    SetInput(row.position, MakeList(name, std::vector<int64_t>{*i}));
  } else if (const auto* list =
                 std::get_if<std::vector<float>>(&attribute->value)) {
    if (row.kind != Kind::kFloats) return;
    SetInput(row.position, MakeList(name, *list));
  } else if (const auto* f = std::get_if<float>(&attribute->value)) {
    if (row.kind != Kind::kFloat && row.kind != Kind::kDataScalar) return;
    const DataType type =
        row.kind == Kind::kFloat ? DataType::kFloat32 : TypeOf(node().input(0));
    SetInput(row.position, MakeScalarOf(type, name, *f));
  } else {
    return;
  }
  node().RemoveAttribute(row.attribute);
}

void Normalizer::MoveToInputs() {
  for (const MovedAttribute& row : kMovedAttributes)
    if (row.op == op() && opset_ < row.since) MoveToInput(row);
}

// value_float, value_ints ... : one tensor `value`.
void Normalizer::NormalizeConstant() {
  if (node().attributes.size() != 1) return;
  const Attribute& attribute = node().attributes.front();
  std::optional<TensorData> tensor;
  if (attribute.name == "value_float") {
    if (const auto* f = std::get_if<float>(&attribute.value))
      tensor = MakeScalar("", *f);
  } else if (attribute.name == "value_floats") {
    if (const auto* list = std::get_if<std::vector<float>>(&attribute.value))
      tensor = MakeList("", *list);
  } else if (attribute.name == "value_int") {
    if (const auto* i = std::get_if<int64_t>(&attribute.value))
      tensor = MakeScalar("", *i);
  } else if (attribute.name == "value_ints") {
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value))
      tensor = MakeList("", *list);
  }
  if (!tensor) return;
  node().attributes.clear();
  node().SetAttribute("value", std::move(*tensor));
}

// Below opset 14 there is no training_mode: outputs beyond the first ask for
// batch statistics; below 7, is_test = 0 does.
void Normalizer::NormalizeBatchNormalization() {
  if (opset_ >= 14) return;
  bool training = false;
  for (size_t i = 1; i < node().outputs.size(); ++i)
    training = training || node().output(i);
  if (opset_ < 7) {
    training = Int("is_test", 0) == 0;
    node().RemoveAttribute("is_test");
    node().RemoveAttribute("consumed_inputs");
  }
  // spatial = 0 normalizes each element alone: another op, left as it is.
  if (opset_ < 9 && Int("spatial", 1) == 1) node().RemoveAttribute("spatial");
  if (training) node().SetAttribute("training_mode", int64_t{1});
}

// is_test = 0, the default, drops elements wherever the node runs.
void Normalizer::NormalizeDropout6() {
  const bool training = Int("is_test", 0) == 0;
  node().RemoveAttribute("is_test");
  if (training) SetInput(2, MakeScalar(NameFor("training_mode"), true));
}

// B's dimensions stand for those of A from `axis` on: ones behind them make
// that what it is today.
void Normalizer::NormalizeBroadcast() {
  const std::optional<size_t> a = RankOf(node().input(0));
  const std::optional<size_t> b = RankOf(node().input(1));
  int64_t trailing_ones = 0;
  if (op() == "PRelu") {
    // One slope a channel, or one for all.
    if (!a || !b || *b != 1 || *a < 3) return;
    const Value& slope = graph_.value(node().input(1));
    const auto& dims = slope.type.dims;
    if (dims && dims->front().value == 1) return;
    trailing_ones = static_cast<int64_t>(*a) - 2;
  } else if (node().FindAttribute("axis") && Int("broadcast", 0) != 0) {
    if (!a || !b) return;  // stays as it is, for the op to complain about
    const auto rank = static_cast<int64_t>(*a);
    int64_t axis = Int("axis", 0);
    if (axis < 0) axis += rank;
    trailing_ones = rank - axis - static_cast<int64_t>(*b);
    if (axis < 0 || trailing_ones < 0) return;
  }
  node().RemoveAttribute("axis");
  node().RemoveAttribute("broadcast");
  if (trailing_ones > 0) InsertUnsqueeze(trailing_ones);
}

void Normalizer::InsertUnsqueeze(int64_t trailing_ones) {
  std::vector<int64_t> axes;
  for (int64_t i = -trailing_ones; i < 0; ++i) axes.push_back(i);
  TensorData tensor = MakeList(NameFor("unsqueeze_axes"), axes);
  made_.emplace_back(tensor.name, tensor.owner);
  Node unsqueeze;
  unsqueeze.op_type = "Unsqueeze";
  unsqueeze.inputs = {node().input(1),
                      graph_.AddInitializer(std::move(tensor))};
  const ValueId output = graph_.AddValue(NameFor("unsqueezed"));
  unsqueeze.outputs = {output};
  const auto order = graph_.order();
  const auto place = std::find(order.begin(), order.end(), id_);
  graph_.InsertNode(static_cast<size_t>(place - order.begin()),
                    std::move(unsqueeze));
  node().inputs[1] = output;
}

void Normalizer::Normalize() {
  const Node before = node();
  for (const Renamed& row : kRenamed)
    if (row.before == op() && opset_ < row.since) node().op_type = row.after;
  MoveToInputs();
  if (op() == "Constant") NormalizeConstant();
  if (op() == "BatchNormalization") NormalizeBatchNormalization();
  if (opset_ < 7) {
    if (op() == "Dropout") NormalizeDropout6();
    if (op() == "Gemm") node().RemoveAttribute("broadcast");
    if (op() == "RNN" || op() == "GRU" || op() == "LSTM")
      node().RemoveAttribute("output_sequence");
    if (Contains(kBroadcasting, op()) || op() == "PRelu") NormalizeBroadcast();
  }
  Remember(before);
}

void Normalizer::Remember(const Node& before) {
  const Node& now = node();
  const bool changed =
      // Below 7 a node that does not say `broadcast` differs from one that
      // is new and gets it.
      opset_ < 7 || before.op_type != now.op_type ||
      before.inputs != now.inputs ||
      !SameAttributes(before.attributes, now.attributes);
  if (!changed) return;
  auto spelling = std::make_shared<Spelling>();
  spelling->op_type = before.op_type;
  spelling->op_type_now = now.op_type;
  spelling->inputs = InputNames(graph_, before);
  spelling->inputs_now = InputNames(graph_, now);
  spelling->attributes = before.attributes;
  spelling->attributes_now = now.attributes;
  spelling->made = std::move(made_);
  node().spelling = std::move(spelling);
}

}  // namespace
}  // namespace opset_forms

void NormalizeForms(Graph& graph) {
  graph.file_spelling = false;
  const int64_t opset = graph.opset(kOnnx);
  if (opset < opset_forms::kOldestOpset) return;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order) {
    RewriteSubgraphs(graph.node(id), NormalizeForms);
    if (!graph.node(id).domain.empty()) continue;
    opset_forms::Normalizer(graph, id, opset).Normalize();
  }
}

}  // namespace strop
