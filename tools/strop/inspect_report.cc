// SPDX-License-Identifier: Apache-2.0
#include "inspect_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/path_text.h"
#include "base/throw.h"
#include "checkpoint/parameter_store.h"
#include "graph/onnx_io.h"
#include "saturated.h"
#include "training/signature.h"

namespace strop {
namespace {

bool IsCheckpoint(std::span<const std::byte> bytes) {
  // The identifier of the file's FlatBuffers schema.
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "ODTC", 4) == 0;
}

std::string DimText(const Dimension& dim) {
  if (dim.value) return std::to_string(*dim.value);
  return dim.symbol.empty() ? "?" : dim.symbol;
}

// "float32[batch, 784]"
std::string TypeText(const ValueType& type) {
  if (type.kind == ValueType::Kind::kUnknown) return "unknown";
  if (type.kind == ValueType::Kind::kOther) return "not a tensor";
  std::string text = DataTypeName(type.element);
  if (type.dims) {
    std::string dims;
    for (const Dimension& dim : *type.dims) {
      dims += (dims.empty() ? "" : ", ") + DimText(dim);
    }
    text += "[" + dims + "]";
  }
  if (type.kind == ValueType::Kind::kTensorList) return "list of " + text;
  return text;
}

std::string TypeText(DataType type, std::span<const int64_t> dims) {
  return fmt::format("{}[{}]", DataTypeName(type), fmt::join(dims, ", "));
}

int64_t ElementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count = SaturatedProduct(count, dim);
  return count;
}

bool IsGraphInput(const Graph& graph, std::string_view name) {
  const ValueId id = graph.Find(name);
  return id && graph.value(id).is_input;
}

// Inputs and outputs that the graph's caller never sees: parameters, and in a
// training graph their gradients and the reset flag. Without a state, what
// the name of a gradient buffer in a training graph begins with is taken for
// a parameter.
bool IsHidden(std::string_view name, const Graph& graph,
              const CheckpointState* state) {
  if (state != nullptr && state->HasParameter(name)) return true;
  if (!IsGraphInput(graph, kResetFlagName)) return false;
  if (name == kResetFlagName) return true;
  const std::string_view owner = GradientOwnerName(name);
  if (owner.empty()) return false;
  return state != nullptr ? state->HasParameter(owner)
                          : IsGraphInput(graph, owner);
}

Json Signature(const Graph& graph, std::span<const ValueId> values,
               const CheckpointState* state) {
  Json result = Json::array();
  for (ValueId id : values) {
    const Value& value = graph.value(id);
    const bool has_default = value.is_input && value.initializer.has_value();
    if (IsHidden(value.name, graph, state) || has_default) continue;
    result.push_back({{"name", value.name}, {"type", TypeText(value.type)}});
  }
  return result;
}

Json ModelReport(const Model& model, const CheckpointState* state) {
  const Graph& graph = model.graph;
  Json report = {{"ir_version", model.ir_version}};
  std::string producer = model.producer_name;
  if (!model.producer_version.empty()) producer += " " + model.producer_version;
  report["producer"] = producer;
  for (const auto& [domain, version, encoded] : model.opset_imports) {
    report["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  }
  report["inputs"] = Signature(graph, graph.inputs(), state);
  report["outputs"] = Signature(graph, graph.outputs(), state);
  Json initializers = Json::array();
  int64_t elements = 0;
  for (ValueId id : graph.initializers()) {
    const TensorData& data = *graph.value(id).initializer;
    initializers.push_back(
        {{"name", data.name}, {"type", TypeText(data.type, data.dims)}});
    elements = SaturatedSum(elements, ElementCount(data.dims));
  }
  report["initializers"] = initializers;
  report["initializer_elements"] = elements;
  std::map<std::string, int64_t> ops;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ++ops[node.domain.empty() ? node.op_type
                              : node.domain + "::" + node.op_type];
  }
  report["nodes"] = graph.order().size();
  report["ops"] = Json::object();
  for (const auto& [op, count] : ops) report["ops"][op] = count;
  return report;
}

Json CheckpointReport(const CheckpointState& state) {
  Json report = {{"nominal", state.is_nominal()}};
  int64_t trainable = 0, frozen = 0;
  Json parameters = Json::array();
  for (const Parameter& parameter : state.store().parameters) {
    const Tensor& value = parameter.value;
    const int64_t count = state.is_nominal() ? 0 : value.element_count();
    (parameter.requires_grad ? trainable : frozen) += count;
    Json entry = {{"name", parameter.name},
                  {"trains", parameter.requires_grad}};
    if (!state.is_nominal()) {
      entry["type"] = TypeText(value.type(), value.shape().dims());
    }
    parameters.push_back(entry);
  }
  report["trainable_elements"] = trainable;
  report["frozen_elements"] = frozen;
  report["parameters"] = parameters;
  report["optimizer"] = Json::object();
  for (const auto& [name, group] : state.store().groups) {
    report["optimizer"][name] = {
        {"step", group.step},
        {"initial_learning_rate", group.initial_learning_rate},
        {"learning_rate", group.learning_rate},
        {"parameters_with_moments", group.parameters.size()}};
  }
  report["properties"] = Json::object();
  for (const auto& [name, property] : state.store().properties) {
    std::visit([&](const auto& value) { report["properties"][name] = value; },
               property);
  }
  return report;
}

}  // namespace

Inspection::Inspection(const std::filesystem::path& source,
                       const std::filesystem::path& checkpoint,
                       const Environment& environment)
    : source_(source) {
  FileSystem& files = environment.files();
  const OnnxReadOptions as_written = {
      .normalize = false, .inline_functions = false, .log = environment.log()};
  if (!files.IsDirectory(source)) {
    if (IsCheckpoint(files.Open(source).bytes)) {
      state_ = CheckpointState::Load(source, environment);
    } else {
      model_ = ReadOnnx(source, files, as_written);
    }
    return;
  }
  const ArtifactFolder artifacts = ArtifactFolder::Open(source, files);
  const std::filesystem::path path =
      artifacts.CheckpointToUse(checkpoint, files);
  // One that was asked for must be there.
  if (!checkpoint.empty() || files.Exists(path)) {
    state_ = CheckpointState::Load(path, environment);
  }
  models_["train"] = ReadOnnx(artifacts.train, files, as_written);
  if (artifacts.eval) {
    models_["eval"] = ReadOnnx(*artifacts.eval, files, as_written);
  }
  if (artifacts.optimizer) {
    models_["optimizer"] = ReadOnnx(*artifacts.optimizer, files, as_written);
  }
}

Json Inspection::Report() const {
  Json report = {{"file", PathText(source_)}};
  const CheckpointState* state = state_ ? &*state_ : nullptr;
  if (model_) {
    report["kind"] = "model";
    report["model"] = ModelReport(*model_, nullptr);
  } else if (models_.empty()) {
    report["kind"] = "checkpoint";
  } else {
    report["kind"] = "artifacts";
    for (const auto& [name, model] : models_) {
      report[name + "_model"] = ModelReport(model, state);
    }
  }
  if (state_) report["checkpoint"] = CheckpointReport(*state_);
  return report;
}

std::map<std::string, Tensor> Inspection::Arrays() const {
  std::map<std::string, Tensor> arrays;
  if (model_) {
    for (ValueId id : model_->graph.initializers()) {
      const TensorData& data = *model_->graph.value(id).initializer;
      if (DataTypeSize(data.type) > 0) arrays[data.name] = data.view();
    }
  }
  if (!state_) return arrays;
  if (state_->is_nominal()) {
    Throw(ErrorCode::kFailedState,
          "{}: a nominal checkpoint has no values to dump", PathText(source_));
  }
  for (const Parameter& parameter : state_->store().parameters) {
    arrays[parameter.name] = parameter.value;
  }
  for (const auto& [group_name, group] : state_->store().groups) {
    for (const auto& [parameter, moments] : group.parameters) {
      for (const auto& [moment, value] : moments) {
        arrays["moment/" + parameter + "/" + moment] = value;
      }
    }
  }
  return arrays;
}

namespace {

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void AddTyped(std::string* text, std::string_view title, const Json& list) {
  *text += fmt::format("  {} ({})\n", title, list.size());
  for (const Json& entry : list) {
    *text += fmt::format("    {}  {}", Text(entry["name"]),
                         entry.contains("type") ? Text(entry["type"]) : "");
    if (entry.contains("trains")) {
      *text += entry["trains"].get<bool>() ? "  trains" : "  frozen";
    }
    *text += '\n';
  }
}

void AddModel(std::string* text, std::string_view title, const Json& model) {
  *text += fmt::format("{}: IR version {}", title, Text(model["ir_version"]));
  if (model.contains("opsets")) {
    for (const auto& [domain, version] : model["opsets"].items()) {
      *text += fmt::format(", {} {}", domain, Text(version));
    }
  }
  if (!Text(model["producer"]).empty()) {
    *text += ", by " + Text(model["producer"]);
  }
  *text += '\n';
  AddTyped(text, "inputs", model["inputs"]);
  AddTyped(text, "outputs", model["outputs"]);
  if (!model["initializers"].empty()) {
    AddTyped(text,
             fmt::format("initializers, {} elements",
                         Text(model["initializer_elements"])),
             model["initializers"]);
  }
  *text += fmt::format("  ops ({} nodes)\n", Text(model["nodes"]));
  for (const auto& [op, count] : model["ops"].items()) {
    *text += fmt::format("    {} {}\n", op, Text(count));
  }
}

void AddCheckpoint(std::string* text, const Json& checkpoint) {
  *text += "checkpoint";
  if (checkpoint["nominal"].get<bool>()) *text += ", nominal (names only)";
  *text += '\n';
  AddTyped(text,
           fmt::format("parameters, {} elements train, {} frozen",
                       Text(checkpoint["trainable_elements"]),
                       Text(checkpoint["frozen_elements"])),
           checkpoint["parameters"]);
  for (const auto& [name, group] : checkpoint["optimizer"].items()) {
    *text += fmt::format("  optimizer {}:", name);
    for (const auto& [key, value] : group.items()) {
      *text += fmt::format(" {} {}", key, Text(value));
    }
    *text += '\n';
  }
  if (checkpoint["properties"].empty()) return;
  *text += "  properties\n";
  for (const auto& [name, value] : checkpoint["properties"].items()) {
    *text += fmt::format("    {} = {}\n", name, Text(value));
  }
}

}  // namespace

std::string ReportText(const Json& report) {
  std::string text =
      fmt::format("{} is a {}\n", Text(report["file"]),
                  report["kind"] == "artifacts" ? "folder of training artifacts"
                                                : Text(report["kind"]));
  for (const char* part :
       {"model", "train_model", "eval_model", "optimizer_model"}) {
    if (report.contains(part)) {
      std::string title = part;
      std::ranges::replace(title, '_', ' ');
      AddModel(&text, title, report[part]);
    }
  }
  if (report.contains("checkpoint")) {
    AddCheckpoint(&text, report["checkpoint"]);
  }
  if (report.contains("plan")) {
    for (const auto& [name, plan] : report["plan"].items()) {
      text += fmt::format("plan: {}\n{}\n", name, Text(plan));
    }
  }
  return text;
}

}  // namespace strop
