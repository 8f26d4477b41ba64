// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "graph/onnx_io.h"
#include "strop/environment.h"

namespace strop {
namespace {

Model ReadSource(const ModelSource& source, const Environment& environment) {
  const OnnxReadOptions options = {.log = environment.log()};
  if (const auto* path = std::get_if<std::filesystem::path>(&source))
    return ReadOnnx(*path, environment.files(), options);
  return ReadOnnx(std::get<std::span<const std::byte>>(source), options);
}

void AddParameters(ParameterStore& store, const std::vector<TensorData>& from,
                   bool requires_grad) {
  for (const TensorData& data : from) {
    Parameter parameter;
    parameter.name = data.name;
    parameter.requires_grad = requires_grad;
    parameter.value = data.view();
    store.parameters.push_back(std::move(parameter));
  }
}

}  // namespace

ParameterStore MakeParameterStore(const TrainingModels& models,
                                  const Environment& environment) {
  ParameterStore store(environment);
  AddParameters(store, models.trainable, true);
  AddParameters(store, models.frozen, false);
  std::ranges::sort(store.parameters, {}, &Parameter::name);
  std::vector<TensorInfo> infos;
  for (const Parameter& parameter : store.parameters)
    infos.push_back({parameter.value.type(), parameter.value.shape()});
  // The store owns its values.
  TensorBlock values(infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    const Tensor& to = values.tensors()[i];
    std::ranges::copy(store.parameters[i].value.bytes(), to.bytes().begin());
    store.parameters[i].value = to;
  }
  store.values = std::move(values);
  return store;
}

ArtifactReport GenerateArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const std::filesystem::path& folder, const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops) {
  std::optional<Model> loss_model;
  if (options.loss_model)
    loss_model = ReadSource(*options.loss_model, environment);
  TrainingModels models =
      MakeTrainingModels(ReadSource(model, environment), options,
                         std::move(loss_model), custom_ops);
  ParameterStore store = MakeParameterStore(models, environment);

  // Everything is encoded before the first file is written.
  FileSystem& files = environment.files();
  std::vector<std::pair<std::string, std::string>> texts;
  texts.emplace_back("training_model.onnx", EncodeOnnx(models.training));
  texts.emplace_back("eval_model.onnx", EncodeOnnx(models.eval));
  if (models.optimizer)
    texts.emplace_back("optimizer_model.onnx", EncodeOnnx(*models.optimizer));
  const auto path = [&](const std::string& name) {
    return folder / (options.prefix + name);
  };
  std::vector<FileToWrite> writes;
  for (const auto& [name, text] : texts)
    writes.push_back({path(name), {std::as_bytes(std::span(text))}});
  SerializedCheckpoint checkpoint = SerializeCheckpoint(store, false);
  if (checkpoint.has_external_data) {
    writes.push_back({ExternalDataPath(path("checkpoint")),
                      std::move(checkpoint.external_data)});
  }
  writes.push_back({path("checkpoint"), {checkpoint.bytes}});
  SerializedCheckpoint nominal;
  if (options.nominal_checkpoint) {
    store.is_nominal = true;
    nominal = SerializeCheckpoint(store, false);
    writes.push_back({path("nominal_checkpoint"), {nominal.bytes}});
  }
  std::filesystem::create_directories(folder);
  files.Write(writes);
  return models.report;
}

}  // namespace strop
