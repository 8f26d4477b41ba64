// SPDX-License-Identifier: Apache-2.0
#include "training/export_inference.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/throw.h"
#include "graph/onnx_io.h"
#include "training/output_types.h"

namespace strop {
namespace {

// ORT's limit for tensors of a model whose state has external data.
constexpr size_t kExternalThreshold = 64;
// From this IR version on an initializer need not be an input as well.
constexpr int64_t kFreeInitializersIr = 4;

// Takes out what the outputs do not need, whatever effects it may have.
void RemoveUnreachable(Graph& graph) {
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  std::map<NodeId, std::vector<ValueId>> reads;
  for (size_t i = 0; i < consumers.size(); ++i) {
    for (NodeId id : consumers[i]) {
      reads[id].push_back(ValueId{static_cast<int32_t>(i)});
    }
  }
  std::vector<ValueId> needed(graph.outputs().begin(), graph.outputs().end());
  std::set<NodeId> reached;
  while (!needed.empty()) {
    const NodeId producer = graph.value(needed.back()).producer;
    needed.pop_back();
    if (!producer || !reached.insert(producer).second) continue;
    const std::vector<ValueId>& inputs = reads[producer];
    needed.insert(needed.end(), inputs.begin(), inputs.end());
  }
  const std::vector<NodeId> nodes(graph.order().begin(), graph.order().end());
  for (NodeId id : nodes) {
    if (!reached.contains(id)) graph.RemoveNode(id);
  }
}

void RemoveUnusedInitializers(Graph& graph) {
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  const std::vector<ValueId> initializers(graph.initializers().begin(),
                                          graph.initializers().end());
  for (ValueId id : initializers) {
    if (consumers[static_cast<size_t>(id.index)].empty() &&
        !graph.value(id).is_output) {
      graph.RemoveInitializer(id);
    }
  }
}

void Cut(Graph& graph, std::span<const std::string> output_names) {
  std::vector<ValueId> outputs;
  for (const std::string& name : output_names) {
    if (name.empty()) {
      Throw(ErrorCode::kInvalidArgument,
            "ExportModelForInferencing: an output name is empty");
    }
    const ValueId id = graph.Find(name);
    if (!id) {
      Throw(ErrorCode::kNotFound,
            "ExportModelForInferencing: the graph output \"{}\" could not be "
            "found in the eval model",
            name);
    }
    outputs.push_back(id);
  }
  graph.SetOutputs(std::move(outputs));
  RemoveUnreachable(graph);
  RemoveUnusedInitializers(graph);
}

// Inputs that are read go on: parameters as initializers, others as inputs.
void BakeParameters(Model& model, ParameterStore& store) {
  Graph& graph = model.graph;
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  std::vector<ValueId> inputs;
  std::vector<TensorData> initializers;
  for (ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (consumers[static_cast<size_t>(id.index)].empty() && !value.is_output) {
      continue;
    }
    const Parameter* parameter = store.Find(value.name);
    if (parameter == nullptr || model.ir_version < kFreeInitializersIr) {
      inputs.push_back(id);
    }
    if (parameter == nullptr) continue;
    // The bytes stay the store's while the model is written.
    const auto dims = parameter->value.shape().dims();
    TensorData data;
    data.name = value.name;
    data.type = parameter->value.type();
    data.dims.assign(dims.begin(), dims.end());
    data.bytes = parameter->value.bytes();
    initializers.push_back(std::move(data));
  }
  graph.SetInputs(std::move(inputs));
  for (TensorData& data : initializers) {
    const ValueId id = graph.Find(data.name);
    if (graph.value(id).initializer) graph.RemoveInitializer(id);
    graph.AddInitializer(std::move(data));
  }
}

// Values whose node is gone are not described any more.
void ForgetUnusedValues(Graph& graph) {
  for (size_t i = 0; i < graph.value_count(); ++i) {
    Value& value = graph.value(ValueId{static_cast<int32_t>(i)});
    if (!value.producer && !value.is_input && !value.initializer) {
      value.has_value_info = false;
    }
  }
}

// A graph output needs a type; values inside a graph may lack one.
void GiveOutputTypes(Graph& graph, const std::filesystem::path& eval_path,
                     const Session& session,
                     std::span<const std::string> output_names) {
  const bool complete = std::all_of(
      graph.outputs().begin(), graph.outputs().end(), [&](ValueId id) {
        return graph.value(id).type.kind != ValueType::Kind::kUnknown;
      });
  if (complete) return;
  Graph planned = ReadModel(eval_path, session.environment()).graph;
  Cut(planned, output_names);
  const std::vector<ValueType> types = InferOutputTypes(planned, session);
  for (size_t i = 0; i < types.size(); ++i) {
    Value& value = graph.value(graph.outputs()[i]);
    if (value.type.kind == ValueType::Kind::kUnknown) value.type = types[i];
  }
}

}  // namespace

void ExportInferenceModel(const std::filesystem::path& eval_path,
                          ParameterStore& store, const Session& session,
                          const std::filesystem::path& path,
                          std::span<const std::string> output_names) {
  if (output_names.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "ExportModelForInferencing: no output was named");
  }
  const Environment& environment = session.environment();
  Model model = ReadOnnx(
      eval_path, environment.files(),
      {.normalize = true, .inline_functions = false, .log = environment.log()});
  Cut(model.graph, output_names);
  BakeParameters(model, store);
  ForgetUnusedValues(model.graph);
  GiveOutputTypes(model.graph, eval_path, session, output_names);
  OnnxWriteOptions options;
  if (store.has_external_data) {
    options = {.external_threshold = kExternalThreshold,
               .force_external = true};
  }
  WriteOnnx(model, path, environment.files(), options);
}

}  // namespace strop
