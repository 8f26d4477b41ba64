// SPDX-License-Identifier: Apache-2.0
#include "training/signature.h"

#include <algorithm>
#include <optional>

#include "base/throw.h"

namespace strop {
namespace {

constexpr std::string_view kGradientSuffixes[] = {
    "_grad.accumulation.buffer", "_grad", "_grad.accumulation.out"};

// The parameter whose gradient `name` names.
const Parameter* FindGradientOwner(std::string_view name,
                                   ParameterStore& store) {
  const std::string_view owner = GradientOwnerName(name);
  return owner.empty() ? nullptr : store.Find(owner);
}

std::string Declared(const ValueType& type) {
  std::string text = DataTypeName(type.element);
  if (!type.dims) return text;
  text += " of shape (";
  for (size_t i = 0; i < type.dims->size(); ++i) {
    const Dimension& dim = (*type.dims)[i];
    if (i > 0) text += ", ";
    text += dim.value            ? std::to_string(*dim.value)
            : dim.symbol.empty() ? "?"
                                 : dim.symbol;
  }
  return text + ")";
}

bool Fits(const ValueType& type, const Tensor& tensor) {
  if (type.kind != ValueType::Kind::kTensor) {
    return type.kind == ValueType::Kind::kUnknown;
  }
  if (type.element != DataType::kUndefined && type.element != tensor.type()) {
    return false;
  }
  if (!type.dims) return true;
  if (type.dims->size() != tensor.shape().rank()) return false;
  for (size_t i = 0; i < type.dims->size(); ++i) {
    const std::optional<int64_t>& value = (*type.dims)[i].value;
    if (value && *value != tensor.shape()[i]) return false;
  }
  return true;
}

void CheckFits(const Value& input, std::string_view what,
               const Parameter& parameter) {
  if (Fits(input.type, parameter.value)) return;
  Throw(ErrorCode::kInvalidGraph,
        "the graph declares the {} \"{}\" as {}, the checkpoint has {} of "
        "shape {}",
        what, input.name, Declared(input.type),
        DataTypeName(parameter.value.type()),
        parameter.value.shape().ToString());
}

// An initializer that is also an input (IR 3) is the value of that input,
// unless the state has one.
void DropDefaults(Graph& graph, ParameterStore& store) {
  std::vector<ValueId> inputs;
  for (ValueId id : graph.inputs()) {
    if (!graph.value(id).initializer) {
      inputs.push_back(id);
    } else if (store.Find(graph.value_name(id)) != nullptr) {
      graph.RemoveInitializer(id);
      inputs.push_back(id);
    }
  }
  if (inputs.size() != graph.inputs().size()) {
    graph.SetInputs(std::move(inputs));
  }
}

void Add(Signature& signature, SignatureInput input) {
  if (input.role == InputRole::kUser) {
    signature.user_inputs.push_back(signature.inputs.size());
  }
  signature.inputs.push_back(std::move(input));
}

bool Has(const Signature& signature, InputRole role, const std::string& name) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                     [&](const SignatureInput& input) {
                       return input.role == role && input.parameter == name;
                     });
}

SignatureInput GradientInput(const Signature& signature, const Value& input,
                             const Parameter& parameter,
                             const ParameterStore& store) {
  if (!parameter.requires_grad) {
    Throw(ErrorCode::kInvalidGraph,
          "the training graph has a gradient buffer \"{}\", but \"{}\" is "
          "frozen in the checkpoint",
          input.name, parameter.name);
  }
  if (Has(signature, InputRole::kGradient, parameter.name)) {
    Throw(ErrorCode::kInvalidGraph,
          "the training graph has a second gradient buffer \"{}\" for \"{}\"",
          input.name, parameter.name);
  }
  if (!store.is_nominal) CheckFits(input, "gradient buffer", parameter);
  return {InputRole::kGradient, parameter.name};
}

SignatureInput ClassifyTrainingInput(const Signature& signature,
                                     const Value& input,
                                     ParameterStore& store) {
  if (const Parameter* parameter = store.Find(input.name)) {
    if (!store.is_nominal) CheckFits(input, "parameter", *parameter);
    return {InputRole::kParameter, input.name};
  }
  if (input.name == kResetFlagName) {
    static const Shape kFlagShape = {1};
    if (!Fits(input.type, Tensor(DataType::kBool, kFlagShape, nullptr))) {
      Throw(ErrorCode::kInvalidGraph,
            "the training graph declares \"{}\" as {} instead of bool of "
            "shape (1)",
            input.name, Declared(input.type));
    }
    return {InputRole::kResetFlag, {}};
  }
  if (const Parameter* owner = FindGradientOwner(input.name, store)) {
    return GradientInput(signature, input, *owner, store);
  }
  return {};
}

void CheckTrainable(const Signature& signature, const ParameterStore& store) {
  bool any = false;
  for (const Parameter& parameter : store.parameters) {
    if (!parameter.requires_grad) continue;
    any = true;
    if (!Has(signature, InputRole::kParameter, parameter.name)) {
      Throw(ErrorCode::kInvalidGraph,
            "the checkpoint has the trainable parameter \"{}\", which the "
            "training graph does not have among its inputs",
            parameter.name);
    }
    if (!Has(signature, InputRole::kGradient, parameter.name)) {
      Throw(ErrorCode::kInvalidGraph,
            "the training graph has no gradient buffer input \"{}{}\" for the "
            "trainable parameter \"{}\"",
            parameter.name, kGradientSuffixes[0], parameter.name);
    }
  }
  if (any && !Has(signature, InputRole::kResetFlag, {})) {
    Throw(ErrorCode::kInvalidGraph,
          "the training graph has no input \"{}\", which says when gradients "
          "are overwritten",
          kResetFlagName);
  }
}

// Nobody asks for the accumulators' flags.
void DropAccumulatorOutputs(Graph& graph, ParameterStore& store) {
  std::vector<ValueId> outputs;
  for (ValueId id : graph.outputs()) {
    if (FindGradientOwner(graph.value_name(id), store) == nullptr) {
      outputs.push_back(id);
    }
  }
  graph.SetOutputs(std::move(outputs));
}

}  // namespace

std::string_view GradientOwnerName(std::string_view name) {
  for (std::string_view suffix : kGradientSuffixes) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    return name;
  }
  return {};
}

Signature ReadTrainingSignature(Graph& graph, ParameterStore& store) {
  DropDefaults(graph, store);
  Signature signature;
  for (ValueId id : graph.inputs()) {
    Add(signature, ClassifyTrainingInput(signature, graph.value(id), store));
  }
  CheckTrainable(signature, store);
  DropAccumulatorOutputs(graph, store);
  return signature;
}

Signature ReadEvalSignature(Graph& graph, ParameterStore& store) {
  DropDefaults(graph, store);
  Signature signature;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    const Parameter* parameter = store.Find(input.name);
    if (parameter == nullptr) {
      Add(signature, {});
      continue;
    }
    if (!store.is_nominal) CheckFits(input, "parameter", *parameter);
    Add(signature, {InputRole::kParameter, input.name});
  }
  return signature;
}

TensorInfo DeclaredInfo(const Graph& graph, ValueId input) {
  const ValueType& type = graph.value(input).type;
  if (!type.dims || DataTypeSize(type.element) == 0) return {};
  std::vector<int64_t> dims;
  for (const Dimension& dim : *type.dims) {
    if (!dim.value) return {};
    dims.push_back(*dim.value);
  }
  return {type.element, Shape(dims)};
}

}  // namespace strop
