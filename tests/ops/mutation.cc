// SPDX-License-Identifier: Apache-2.0
#include "ops/mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace strop {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

constexpr int64_t kInts[] = {-1,
                             0,
                             1,
                             2,
                             3,
                             12,
                             -100,
                             1000,
                             std::numeric_limits<int32_t>::max(),
                             std::numeric_limits<int32_t>::min(),
                             int64_t{1} << 32,
                             int64_t{1} << 62,
                             kLeast,
                             kMost};
constexpr float kFloats[] = {-1,
                             0,
                             0.5f,
                             2,
                             1e30f,
                             -1e30f,
                             static_cast<float>(kNan),
                             static_cast<float>(kInf)};

// --- Inputs

// The nearest number that the type holds.
double Fit(double value, DataType type) {
  DispatchType(Integers{}, type, [&]<class T>() {
    if (std::isnan(value)) value = 0;
    // The largest double that is not above T's largest number.
    const double largest =
        std::nextafter(static_cast<double>(std::numeric_limits<T>::max()), 0.0);
    value = std::clamp(std::trunc(value),
                       static_cast<double>(std::numeric_limits<T>::min()),
                       sizeof(T) < 8 ? std::numeric_limits<T>::max() : largest);
  });
  if (type == DataType::kBool) value = value != 0 ? 1 : 0;
  return value;
}

}  // namespace

void SetType(CaseInput& input, DataType type) {
  input.type = type;
  for (double& value : input.values) value = Fit(value, type);
  input.low = Fit(input.low, type);
}

namespace {

// Elements that are given are repeated or cut to the new count.
void SetShape(CaseInput& input, const Shape& shape) {
  input.shape = shape;
  if (input.values.empty()) return;
  const Numbers64 old = std::move(input.values);
  input.values.assign(static_cast<size_t>(shape.element_count()), 0);
  for (size_t i = 0; i < input.values.size(); ++i) {
    input.values[i] = old[i % old.size()];
  }
}

Shape WithDim(const Shape& shape, size_t axis, int64_t size) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims[axis] = size;
  return Shape(dims);
}

using InputMutation = std::function<void(CaseInput&)>;
using Emit = std::function<void(const std::string&, const InputMutation&)>;

void MutateShape(const CaseInput& input, const Emit& emit) {
  const auto set = [&](const std::vector<int64_t>& dims) {
    const Shape shape(dims);
    if (shape == input.shape) return;
    emit("shape " + shape.ToString(),
         [shape](CaseInput& i) { SetShape(i, shape); });
  };
  const std::vector<int64_t> dims(input.shape.begin(), input.shape.end());
  set({});
  set({0});
  set(std::vector<int64_t>(12, 1));
  auto longer = dims;
  if (dims.size() < Shape::kMaxRank) {
    longer.push_back(1);
    set(longer);
    longer.back() = 2;
    set(longer);
    longer = dims;
    longer.insert(longer.begin(), 2);
    set(longer);
  }
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    for (const int64_t size :
         {int64_t{0}, int64_t{1}, dims[axis] + 1, dims[axis] - 1}) {
      if (size < 0) continue;
      auto changed = dims;
      changed[axis] = size;
      set(changed);
    }
    auto shorter = dims;
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(axis));
    set(shorter);
  }
}

constexpr DataType kTypes[] = {
    DataType::kFloat32, DataType::kFloat64, DataType::kInt8,
    DataType::kInt16,   DataType::kInt32,   DataType::kInt64,
    DataType::kUint8,   DataType::kUint16,  DataType::kUint32,
    DataType::kUint64,  DataType::kBool,    DataType::kFloat16,
    DataType::kBfloat16};

void MutateType(DataType own, const Emit& emit) {
  for (const DataType type : kTypes) {
    if (type == own) continue;
    emit("type " + DataTypeName(type),
         [type](CaseInput& i) { SetType(i, type); });
  }
}

void MutateValues(const CaseInput& input, DataType type, const Emit& emit) {
  const size_t count = static_cast<size_t>(input.shape.element_count());
  if (count == 0) return;
  const bool is_integer = DispatchType(Integers{}, type, []<class T>() {}) ||
                          type == DataType::kBool;
  std::vector<double> hostile;
  for (const int64_t value : kInts)
    hostile.push_back(static_cast<double>(value));
  if (!is_integer) hostile.assign(std::begin(kFloats), std::end(kFloats));
  for (double value : hostile) {
    value = Fit(value, type);
    emit(fmt::format("elements {}", value),
         [=](CaseInput& i) { i.values.assign(count, value); });
    if (input.values.size() < 2) continue;
    emit(fmt::format("last element {}", value),
         [=](CaseInput& i) { i.values.back() = value; });
  }
}

void MutateInput(const CaseInput& input, DataType type, const Emit& emit) {
  if (input.omitted) {
    emit("given", [](CaseInput& i) { i = In({2}); });
    return;
  }
  emit("left out", [](CaseInput& i) { i = Omitted(); });
  if (!input.list.empty()) {
    emit("first of list", [](CaseInput& i) {
      const CaseInput first = i.list[0];
      i = first;
    });
    emit("shorter list", [](CaseInput& i) {
      i.list.pop_back();
      if (i.list.empty()) i = Omitted();
    });
    emit("longer list", [](CaseInput& i) { i.list.push_back(i.list[0]); });
    for (size_t k = 0; k < input.list.size(); ++k) {
      MutateInput(input.list[k], type,
                  [&](const std::string& what, const InputMutation& mutate) {
                    emit(fmt::format("list[{}] ", k) + what, [&](CaseInput& i) {
                      if (what != "left out") mutate(i.list[k]);
                    });
                  });
    }
    return;
  }
  emit("a list", [](CaseInput& i) { i = ListOf({i, i}); });
  const DataType own = input.type == DataType::kUndefined ? type : input.type;
  MutateShape(input, emit);
  MutateType(own, emit);
  MutateValues(input, own, emit);
}

void MutateInputs(const OpCase& op_case, DataType type,
                  const MutantFunction& see) {
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    MutateInput(op_case.inputs[i], type,
                [&](const std::string& what, const InputMutation& mutate) {
                  OpCase mutant = op_case;
                  mutate(mutant.inputs[i]);
                  see(fmt::format("input {} ", i) + what, mutant);
                });
  }
}

// All inputs without a type of their own get another one.
void MutateCommonType(const OpCase& op_case, DataType own,
                      const MutantFunction& see) {
  MutateType(own, [&](const std::string& what, const InputMutation& mutate) {
    OpCase mutant = op_case;
    for (CaseInput& input : mutant.inputs) {
      if (input.type == DataType::kUndefined && !input.omitted) mutate(input);
      for (CaseInput& element : input.list) mutate(element);
    }
    see("all of " + what, mutant);
  });
}

// --- The lists of inputs and outputs

void MutateSlots(const OpCase& op_case, const MutantFunction& see) {
  OpCase mutant = op_case;
  if (!op_case.inputs.empty()) {
    mutant.inputs.pop_back();
    see("one input less", mutant);
    mutant = op_case;
    mutant.inputs.push_back(op_case.inputs[0]);
    see("one input more", mutant);
    mutant.inputs.resize(40, op_case.inputs[0]);
    see("40 inputs", mutant);
    mutant.inputs.clear();
    see("no inputs", mutant);
    mutant = op_case;
    std::reverse(mutant.inputs.begin(), mutant.inputs.end());
    see("inputs in reverse", mutant);
  }
  mutant = op_case;
  for (const char* outputs : {"", "0", "1", "01", "11", "111", "1111",
                              "11111111111111111111111111111111111"}) {
    if (op_case.outputs == outputs) continue;
    mutant.outputs = outputs;
    see(std::string("outputs ") + outputs, mutant);
  }
}

// --- Attributes

using Values = std::vector<Attribute::Value>;

void AddMutations(int64_t, Values& values) {
  for (const int64_t value : kInts) values.emplace_back(value);
}
void AddMutations(float, Values& values) {
  for (const float value : kFloats) values.emplace_back(value);
}
void AddMutations(const std::string&, Values& values) {
  values.emplace_back(std::string());
  values.emplace_back(std::string("nonsense"));
}
void AddMutations(const std::vector<int64_t>& list, Values& values) {
  for (size_t i = 0; i < list.size(); ++i) {
    for (const int64_t value : kInts) {
      auto changed = list;
      changed[i] = value;
      values.emplace_back(changed);
    }
  }
  for (const int64_t value : kInts) {
    values.emplace_back(std::vector<int64_t>(list.size(), value));
  }
  for (const size_t size : {size_t{0}, list.size() + 1, list.size() + 20}) {
    auto changed = list;
    changed.resize(size, 1);
    values.emplace_back(changed);
  }
  if (list.size() > 1) values.emplace_back(std::vector(1, list[0]));
}
void AddMutations(const std::vector<float>& list, Values& values) {
  for (const float value : kFloats) {
    values.emplace_back(std::vector<float>(list.size(), value));
  }
  values.emplace_back(std::vector<float>(list.size() + 1, 1.0f));
}
void AddMutations(const std::vector<std::string>& list, Values& values) {
  values.emplace_back(std::vector<std::string>(list.size(), "nonsense"));
  values.emplace_back(std::vector<std::string>(list.size() + 1, "Sigmoid"));
}
template <class T>
void AddMutations(const T&, Values&) {}

TensorData OneElement(DataType type, double value) {
  OwnedTensor tensor(type, Shape{1});
  FromNumbers(Numbers64{value}, tensor.view());
  return TensorData::Copy("", tensor.view());
}

// Each kind of attribute once.
Values OneOfEachKind() {
  return {std::monostate(),
          int64_t{1},
          1.5f,
          std::string("nonsense"),
          std::vector<int64_t>{},
          std::vector<int64_t>{1},
          std::vector<int64_t>{1, 1},
          std::vector<float>{},
          std::vector<float>{1.5f},
          std::vector<std::string>{},
          std::vector<std::string>{"nonsense"},
          OneElement(DataType::kFloat32, 1),
          OneElement(DataType::kInt64, 1),
          std::make_shared<const Graph>()};
}

// The attributes that any case of the op has, with the value that the first
// of them gives.
CaseAttributes KnownAttributes(const OpCase& op_case) {
  CaseAttributes known = op_case.attributes;
  std::set<std::string> names;
  for (const auto& [name, value] : known) names.insert(name);
  for (const OpCase& other : AllOpCases()) {
    if (other.op != op_case.op || other.domain != op_case.domain) continue;
    for (const auto& attribute : other.attributes) {
      if (names.insert(attribute.first).second) known.push_back(attribute);
    }
  }
  return known;
}

void SetAttribute(OpCase& op_case, const std::string& name,
                  Attribute::Value value) {
  for (auto& [own_name, own_value] : op_case.attributes) {
    if (own_name != name) continue;
    own_value = std::move(value);
    return;
  }
  op_case.attributes.emplace_back(name, std::move(value));
}

void MutateAttributes(const OpCase& op_case, const MutantFunction& see) {
  for (size_t i = 0; i < op_case.attributes.size(); ++i) {
    OpCase mutant = op_case;
    mutant.attributes.erase(mutant.attributes.begin() +
                            static_cast<ptrdiff_t>(i));
    see("without attribute " + op_case.attributes[i].first, mutant);
  }
  for (const auto& [name, value] : KnownAttributes(op_case)) {
    Values values = OneOfEachKind();
    std::visit([&](const auto& v) { AddMutations(v, values); }, value);
    for (size_t k = 0; k < values.size(); ++k) {
      OpCase mutant = op_case;
      SetAttribute(mutant, name, values[k]);
      see(fmt::format("attribute {}, value {}", name, k), mutant);
    }
  }
}

}  // namespace

void ForEachMutant(const OpCase& op_case, DataType type,
                   const MutantFunction& see) {
  MutateInputs(op_case, type, see);
  MutateCommonType(op_case, type, see);
  MutateSlots(op_case, see);
  MutateAttributes(op_case, see);
}

void ForEachEmptied(const OpCase& op_case, const OpDef& op,
                    const MutantFunction& see) {
  // Sets to 0 the dimensions of the input that `wanted` chooses.
  const auto empty = [](CaseInput& input, const auto& wanted) {
    const Shape shape = input.shape;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      if (wanted(axis, shape[axis])) {
        SetShape(input, WithDim(input.shape, axis, 0));
      }
    }
  };
  std::set<int64_t> sizes;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const CaseInput& input = op_case.inputs[i];
    if (op.value_inputs.contains(i)) continue;
    for (const CaseInput& element : input.list) {
      sizes.insert(element.shape.begin(), element.shape.end());
    }
    sizes.insert(input.shape.begin(), input.shape.end());
    for (size_t axis = 0; axis < input.shape.rank(); ++axis) {
      OpCase emptied = op_case;
      empty(emptied.inputs[i], [&](size_t a, int64_t) { return a == axis; });
      see(fmt::format("dimension {} of input {} is 0", axis, i), emptied);
    }
  }
  for (const int64_t size : sizes) {
    OpCase emptied = op_case;
    const auto wanted = [&](size_t, int64_t s) { return s == size; };
    for (size_t i = 0; i < op_case.inputs.size(); ++i) {
      if (op.value_inputs.contains(i)) continue;
      empty(emptied.inputs[i], wanted);
      for (CaseInput& element : emptied.inputs[i].list) empty(element, wanted);
    }
    see(fmt::format("dimensions of {} are 0", size), emptied);
  }
}

OpCase WithScalars(const OpCase& op_case) {
  OpCase result = op_case;
  for (const CaseInput& model : op_case.inputs) {
    if (model.omitted || model.type != DataType::kUndefined) continue;
    for (size_t i = 0; i < result.inputs.size(); ++i) {
      if (op_case.inputs[i].shape == model.shape) {
        SetShape(result.inputs[i], {});
      }
    }
  }
  return result;
}

}  // namespace strop
