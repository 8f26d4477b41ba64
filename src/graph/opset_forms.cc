// SPDX-License-Identifier: Apache-2.0
#include "graph/opset_forms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "base/half.h"
#include "base/throw.h"

namespace strop {
namespace {

using GraphPtr = std::shared_ptr<const Graph>;

constexpr int64_t kOldestOpset = 6;

// How an attribute looks as an input.
enum class Kind {
  kInts,        // int64[n]
  kOneInt,      // int64[1]
  kFloats,      // float32[n]
  kFloat,       // float32[]
  kDataScalar,  // a scalar of the type of input 0
};

// From opset `since` on, `attribute` is the input at `position`.
struct MovedAttribute {
  std::string_view op;
  int64_t since;
  std::string_view attribute;
  size_t position;
  Kind kind;
};

// Rows of an op stand together, in the order of their positions.
constexpr MovedAttribute kMovedAttributes[] = {
    {"Clip", 11, "min", 1, Kind::kDataScalar},
    {"Clip", 11, "max", 2, Kind::kDataScalar},
    {"Dropout", 12, "ratio", 1, Kind::kFloat},
    {"Pad", 11, "pads", 1, Kind::kInts},
    {"Pad", 11, "value", 2, Kind::kDataScalar},
    {"ReduceL1", 18, "axes", 1, Kind::kInts},
    {"ReduceL2", 18, "axes", 1, Kind::kInts},
    {"ReduceLogSum", 18, "axes", 1, Kind::kInts},
    {"ReduceLogSumExp", 18, "axes", 1, Kind::kInts},
    {"ReduceMax", 18, "axes", 1, Kind::kInts},
    {"ReduceMean", 18, "axes", 1, Kind::kInts},
    {"ReduceMin", 18, "axes", 1, Kind::kInts},
    {"ReduceProd", 18, "axes", 1, Kind::kInts},
    {"ReduceSum", 13, "axes", 1, Kind::kInts},
    {"ReduceSumSquare", 18, "axes", 1, Kind::kInts},
    {"Slice", 10, "starts", 1, Kind::kInts},
    {"Slice", 10, "ends", 2, Kind::kInts},
    {"Slice", 10, "axes", 3, Kind::kInts},
    {"Split", 13, "split", 1, Kind::kInts},
    {"Squeeze", 13, "axes", 1, Kind::kInts},
    {"TopK", 10, "k", 1, Kind::kOneInt},
    {"Unsqueeze", 13, "axes", 1, Kind::kInts},
    {"Upsample", 9, "scales", 1, Kind::kFloats},
};

// From opset `since` on, an op has another name and the same meaning.
struct Renamed {
  std::string_view before, after;
  int64_t since;
};

constexpr Renamed kRenamed[] = {{"Scatter", "ScatterElements", 11}};

// Ops that broadcast as `broadcast` and `axis` say below opset 7.
constexpr std::string_view kBroadcasting[] = {"Add",     "And",  "Div", "Equal",
                                              "Greater", "Less", "Mul", "Or",
                                              "Pow",     "Sub",  "Xor"};

// Ops whose first output has the rank and type of their first input; only to
// find the rank or type of a value that nobody wrote down.
constexpr std::string_view kLikeInput[] = {
    "Add",           "AveragePool", "BatchNormalization",
    "Clip",          "Concat",      "Conv",
    "ConvTranspose", "Div",         "Dropout",
    "Elu",           "Exp",         "GlobalAveragePool",
    "GlobalMaxPool", "Identity",    "InstanceNormalization",
    "LRN",           "LeakyRelu",   "MaxPool",
    "Mul",           "Pad",         "PRelu",
    "Relu",          "Sigmoid",     "Softmax",
    "Sub",           "Sum",         "Tanh",
    "Transpose"};

// Ops that change the shape, not the type.
constexpr std::string_view kTypeLikeInput[] = {
    "Expand",    "Flatten",   "Gather",     "Gemm",  "MatMul",
    "ReduceMax", "ReduceSum", "ReduceMean", "Slice", "Squeeze",
    "Unsqueeze", "Reshape",   "Split",      "Tile"};

template <size_t n>
bool Contains(const std::string_view (&list)[n], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

bool SameTensor(const TensorData& a, const TensorData& b) {
  return a.type == b.type && a.dims == b.dims &&
         a.encoded.data() == b.encoded.data() && a.owner == b.owner &&
         a.bytes.data() == b.bytes.data();
}

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (a.name != b.name || a.ref_attr_name != b.ref_attr_name ||
      a.encoded != b.encoded || a.value.index() != b.value.index()) {
    return false;
  }
  if (const auto* tensor = std::get_if<TensorData>(&a.value))
    return SameTensor(*tensor, std::get<TensorData>(b.value));
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, TensorData>)
          return false;
        else
          return value == std::get<T>(b.value);
      },
      a.value);
}

std::vector<std::string> InputNames(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const ValueId input : node.inputs)
    names.push_back(graph.value_name(input));
  return names;
}

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

// One node on its way to another spelling.
class Rewriter {
 public:
  Rewriter(Graph& graph, NodeId id, int64_t opset)
      : graph_(graph), id_(id), opset_(opset) {}

  Node& node() { return graph_.node(id_); }
  const std::string& op() { return node().op_type; }

  // --- To the newest spelling.
  void Normalize();

  // --- Back.
  void Restore();
  // The inputs that the node gave up; they may have no reader any more.
  const std::vector<ValueId>& dropped() const { return dropped_; }

 private:
  void MoveToInputs();
  void MoveToInput(const MovedAttribute& row);
  void NormalizeConstant();
  void NormalizeBatchNormalization();
  void NormalizeDropout6();
  void NormalizeBroadcast();
  void InsertUnsqueeze(int64_t trailing_ones);
  void Remember(const Node& before);

  bool RestoreSpelling();
  void MoveToAttributes();
  void MoveToAttribute(const MovedAttribute& row);
  void RestoreBatchNormalization();
  void RestoreDropout();
  void DropInputsFrom(size_t position);
  [[noreturn]] void Fail(std::string_view why);

  int64_t Int(std::string_view name, int64_t fallback) {
    const Attribute* attribute = node().FindAttribute(name);
    if (attribute == nullptr) return fallback;
    const auto* value = std::get_if<int64_t>(&attribute->value);
    return value ? *value : fallback;
  }
  // The constant that an input holds; null where it is none.
  const TensorData* Constant(size_t position);
  // The dimensions or type of a value, looked for upstream.
  std::optional<size_t> RankOf(ValueId id);
  DataType TypeOf(ValueId id);
  void SetInput(size_t position, TensorData tensor);
  std::string NameFor(std::string_view what) {
    const std::string& own = node().name;
    const std::string& stem =
        own.empty() ? graph_.value_name(node().output(0)) : own;
    return graph_.FreshName(fmt::format("{}_{}", stem, what));
  }

  Graph& graph_;
  const NodeId id_;
  const int64_t opset_;
  std::vector<std::pair<std::string, std::shared_ptr<const void>>> made_;
  std::vector<ValueId> dropped_;
};

void Rewriter::SetInput(size_t position, TensorData tensor) {
  made_.emplace_back(tensor.name, tensor.owner);
  const ValueId id = graph_.AddInitializer(std::move(tensor));
  std::vector<ValueId>& inputs = node().inputs;
  if (inputs.size() <= position) inputs.resize(position + 1);
  inputs[position] = id;
}

std::optional<size_t> Rewriter::RankOf(ValueId id) {
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

DataType Rewriter::TypeOf(ValueId id) {
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

void Rewriter::MoveToInput(const MovedAttribute& row) {
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

void Rewriter::MoveToInputs() {
  for (const MovedAttribute& row : kMovedAttributes)
    if (row.op == op() && opset_ < row.since) MoveToInput(row);
}

// value_float, value_ints ... : one tensor `value`.
void Rewriter::NormalizeConstant() {
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
void Rewriter::NormalizeBatchNormalization() {
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
void Rewriter::NormalizeDropout6() {
  const bool training = Int("is_test", 0) == 0;
  node().RemoveAttribute("is_test");
  if (training) SetInput(2, MakeScalar(NameFor("training_mode"), true));
}

// B's dimensions stand for those of A from `axis` on: ones behind them make
// that what it is today.
void Rewriter::NormalizeBroadcast() {
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

void Rewriter::InsertUnsqueeze(int64_t trailing_ones) {
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

void Rewriter::Normalize() {
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

void Rewriter::Remember(const Node& before) {
  const Node& now = node();
  const bool changed =
      // Below 7 a node that does not say `broadcast` differs from one that
      // is new and gets it.
      opset_ < 7 || before.op_type != now.op_type ||
      before.inputs != now.inputs ||
      !std::equal(before.attributes.begin(), before.attributes.end(),
                  now.attributes.begin(), now.attributes.end(), SameAttribute);
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

void Rewriter::Fail(std::string_view why) {
  Throw(ErrorCode::kNotImplemented,
        "{} has no spelling in opset {}: {}; a newer opset has one",
        Describe(graph_, node()), opset_, why);
}

// Undoes exactly what Normalize did; false where somebody changed it since.
bool Rewriter::RestoreSpelling() {
  const std::shared_ptr<const Spelling> spelling = node().spelling;
  if (!spelling || spelling->op_type_now != op()) return false;
  const auto& now = spelling->attributes_now;
  if (!std::equal(now.begin(), now.end(), node().attributes.begin(),
                  node().attributes.end(), SameAttribute)) {
    return false;
  }
  for (const auto& [name, owner] : spelling->made) {
    const ValueId id = graph_.Find(name);
    if (!id || !graph_.value(id).initializer ||
        graph_.value(id).initializer->owner != owner) {
      return false;
    }
  }
  // Inputs that the rewrite left alone may be others by now.
  const std::vector<std::string> current = InputNames(graph_, node());
  if (current.size() != spelling->inputs_now.size()) return false;
  std::vector<ValueId> inputs(spelling->inputs.size());
  for (size_t i = 0; i < current.size(); ++i) {
    const bool kept =
        i < inputs.size() && spelling->inputs[i] == spelling->inputs_now[i];
    if (!kept && current[i] != spelling->inputs_now[i]) return false;
    if (i >= inputs.size()) {
      dropped_.push_back(node().input(i));
    } else if (kept) {
      inputs[i] = node().input(i);
    } else {
      dropped_.push_back(node().input(i));
      inputs[i] = graph_.Find(spelling->inputs[i]);
      if (!inputs[i] && !spelling->inputs[i].empty()) return false;
    }
  }
  node().inputs = std::move(inputs);
  node().op_type = spelling->op_type;
  node().attributes = spelling->attributes;
  return true;
}

const TensorData* Rewriter::Constant(size_t position) {
  const ValueId id = node().input(position);
  if (!id) return nullptr;
  const Value& value = graph_.value(id);
  if (value.initializer && !value.is_input) return &*value.initializer;
  if (!value.producer) return nullptr;
  const Node& producer = graph_.node(value.producer);
  if (producer.op_type != "Constant" || !producer.domain.empty())
    return nullptr;
  const Attribute* attribute = producer.FindAttribute("value");
  return attribute ? std::get_if<TensorData>(&attribute->value) : nullptr;
}

template <class T>
std::vector<T> Elements(const TensorData& tensor) {
  const Tensor view = tensor.view();
  const std::span<T> values = view.values<T>();
  return {values.begin(), values.end()};
}

float ScalarOf(const TensorData& tensor) {
  const Tensor view = tensor.view();
  if (view.element_count() != 1) {
    Throw(ErrorCode::kInvalidGraph, "tensor \"{}\" should be a scalar",
          tensor.name);
  }
  switch (view.type()) {
    case DataType::kFloat32:
      return view.values<float>()[0];
    case DataType::kFloat64:
      return static_cast<float>(view.values<double>()[0]);
    case DataType::kFloat16:
      return ToFloat(view.values<Float16>()[0]);
    case DataType::kBfloat16:
      return ToFloat(view.values<Bfloat16>()[0]);
    default:
      Throw(ErrorCode::kNotImplemented,
            "tensor \"{}\" of {} cannot become a float attribute", tensor.name,
            DataTypeName(view.type()));
  }
}

void Rewriter::MoveToAttribute(const MovedAttribute& row) {
  if (!node().input(row.position)) return;
  const TensorData* tensor = Constant(row.position);
  if (tensor == nullptr)
    Fail(fmt::format("its input {} is not constant", row.attribute));
  switch (row.kind) {
    case Kind::kInts:
      node().SetAttribute(row.attribute, Elements<int64_t>(*tensor));
      break;
    case Kind::kOneInt: {
      const std::vector<int64_t> one = Elements<int64_t>(*tensor);
      if (one.size() != 1) Fail(fmt::format("{} is no number", row.attribute));
      node().SetAttribute(row.attribute, one.front());
      break;
    }
    case Kind::kFloats:
      node().SetAttribute(row.attribute, Elements<float>(*tensor));
      break;
    case Kind::kFloat:
    case Kind::kDataScalar:
      node().SetAttribute(row.attribute, ScalarOf(*tensor));
      break;
  }
}

void Rewriter::DropInputsFrom(size_t position) {
  std::vector<ValueId>& inputs = node().inputs;
  for (size_t i = position; i < inputs.size(); ++i)
    if (inputs[i]) dropped_.push_back(inputs[i]);
  if (inputs.size() > position) inputs.resize(position);
}

void Rewriter::MoveToAttributes() {
  std::optional<size_t> first, last;
  for (const MovedAttribute& row : kMovedAttributes) {
    if (row.op != op() || opset_ >= row.since) continue;
    if (!first) first = row.position;
    last = row.position;
    MoveToAttribute(row);
  }
  if (!first) return;
  // What newer opsets added behind the inputs that were attributes.
  for (size_t i = *last + 1; i < node().inputs.size(); ++i) {
    if (!node().input(i)) continue;
    const TensorData* tensor = Constant(i);
    bool is_default = false;
    if (tensor != nullptr && op() == "Slice") {  // steps
      const std::vector<int64_t> steps = Elements<int64_t>(*tensor);
      is_default = std::all_of(steps.begin(), steps.end(),
                               [](int64_t step) { return step == 1; });
    } else if (tensor != nullptr && op() == "Dropout") {  // training_mode
      const bool training = Elements<bool>(*tensor).at(0);
      is_default = opset_ < 7 || !training;
      if (opset_ < 7 && !training) node().SetAttribute("is_test", int64_t{1});
    }
    if (!is_default) Fail(fmt::format("its input {} is newer", i));
  }
  DropInputsFrom(*first);
  // Attributes that came with the inputs.
  if (Int("noop_with_empty_axes", 0) != 0) {
    const Attribute* axes = node().FindAttribute("axes");
    if (axes == nullptr || std::get<std::vector<int64_t>>(axes->value).empty())
      Fail("noop_with_empty_axes is newer");
  }
  node().RemoveAttribute("noop_with_empty_axes");
  if (op() == "Split") node().RemoveAttribute("num_outputs");
  if (op() == "TopK") {
    if (Int("largest", 1) != 1) Fail("largest = 0 is newer");
    node().RemoveAttribute("largest");
    node().RemoveAttribute("sorted");
  }
}

void Rewriter::RestoreBatchNormalization() {
  if (opset_ >= 14) return;
  const bool training = Int("training_mode", 0) != 0;
  node().RemoveAttribute("training_mode");
  if (opset_ < 7) {
    if (!training) node().SetAttribute("is_test", int64_t{1});
    return;
  }
  constexpr size_t kTrainingOutputs = 5;
  if (!training) {
    for (size_t i = 1; i < node().outputs.size(); ++i)
      if (node().output(i)) Fail("outputs beyond the first mean training");
    return;
  }
  for (size_t i = 1; i < kTrainingOutputs; ++i) {
    if (node().outputs.size() <= i) node().outputs.emplace_back();
    if (node().output(i)) continue;
    const ValueId id = graph_.AddValue(NameFor(fmt::format("output{}", i)));
    node().outputs[i] = id;
    graph_.value(id).producer = id_;
  }
}

void Rewriter::Restore() {
  if (RestoreSpelling()) return;
  for (const Renamed& row : kRenamed)
    if (row.after == op() && opset_ < row.since) node().op_type = row.before;
  MoveToAttributes();
  if (op() == "BatchNormalization") RestoreBatchNormalization();
  if (op() == "Split" && opset_ < 18) node().RemoveAttribute("num_outputs");
  // Without `broadcast` shapes must be equal; with it they may be.
  if (opset_ < 7 && (Contains(kBroadcasting, op()) || op() == "Gemm"))
    node().SetAttribute("broadcast", int64_t{1});
}

// Runs fn on a copy of each sub-graph, which takes the place of the old.
template <class Fn>
void ForEachSubgraph(Node& node, Fn&& fn) {
  auto rewrite = [&](GraphPtr& graph) {
    if (!graph) return;
    auto copy = std::make_shared<Graph>(*graph);
    fn(*copy);
    graph = std::move(copy);
  };
  for (Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<GraphPtr>(&attribute.value)) {
      rewrite(*one);
    } else if (auto* many =
                   std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
      for (GraphPtr& graph : *many) rewrite(graph);
    }
  }
}

// Takes away what nobody reads any more: initializers, and the Unsqueeze
// nodes of InsertUnsqueeze.
void RemoveUnread(Graph& graph, std::vector<ValueId> candidates) {
  std::vector<size_t> readers(graph.value_count());
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (size_t i = 0; i < consumers.size(); ++i)
    readers[i] = consumers[i].size();
  while (!candidates.empty()) {
    const ValueId id = candidates.back();
    candidates.pop_back();
    if (!id) continue;  // an optional input that was left out
    const Value& value = graph.value(id);
    if (readers[id.index] > 0 || value.is_output || value.is_input) continue;
    if (value.initializer) {
      graph.RemoveInitializer(id);
    } else if (value.producer &&
               graph.node(value.producer).op_type == "Unsqueeze") {
      const NodeId producer = value.producer;
      const std::vector<ValueId> inputs = graph.node(producer).inputs;
      graph.RemoveNode(producer);
      for (const ValueId input : inputs)
        if (input) --readers[input.index];
      if (inputs.size() > 1 && inputs[1]) candidates.push_back(inputs[1]);
    }
  }
}

}  // namespace

void NormalizeForms(Graph& graph) {
  graph.file_spelling = false;
  const int64_t opset = graph.opset(kOnnx);
  if (opset < kOldestOpset) return;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order) {
    ForEachSubgraph(graph.node(id), NormalizeForms);
    if (graph.node(id).domain.empty()) Rewriter(graph, id, opset).Normalize();
  }
}

void RestoreForms(Graph& graph) {
  const int64_t opset = graph.opset(kOnnx);
  if (graph.file_spelling || opset < kOldestOpset) return;
  graph.file_spelling = true;
  std::vector<ValueId> dropped;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  // Backwards: an inserted node loses its reader before its own turn.
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    ForEachSubgraph(graph.node(*id), RestoreForms);
    if (!graph.node(*id).domain.empty()) continue;
    Rewriter rewriter(graph, *id, opset);
    rewriter.Restore();
    dropped.insert(dropped.end(), rewriter.dropped().begin(),
                   rewriter.dropped().end());
  }
  if (!dropped.empty()) RemoveUnread(graph, std::move(dropped));
}

}  // namespace strop
