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

// Names alone; what stands for a value is what ONNX Runtime writes.
void MakeNominal(ParameterStore& store) {
  store.is_nominal = true;
  for (Parameter& parameter : store.parameters)
    parameter.value = Tensor(DataType::kFloat32, {}, nullptr);
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

EncodedArtifacts EncodeArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const Environment& environment,
    std::span<const CustomOpDomain* const> custom) {
  std::optional<Model> loss_model;
  if (options.loss_model)
    loss_model = ReadSource(*options.loss_model, environment);
  TrainingModels models = MakeTrainingModels(
      ReadSource(model, environment), options, std::move(loss_model), custom);
  EncodedArtifacts encoded{
      std::move(models.report), MakeParameterStore(models, environment), {}};
  const auto add = [&](const char* name, const Model& made) {
    encoded.models.push_back({options.prefix + name, EncodeOnnx(made)});
  };
  add("training_model.onnx", models.training);
  add("eval_model.onnx", models.eval);
  if (models.optimizer) add("optimizer_model.onnx", *models.optimizer);
  return encoded;
}

ArtifactReport GenerateArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const std::filesystem::path& folder, const Environment& environment,
    std::span<const CustomOpDomain* const> custom) {
  // Everything is encoded before the first file is written.
  EncodedArtifacts encoded =
      EncodeArtifacts(model, options, environment, custom);
  std::vector<FileToWrite> writes;
  for (const EncodedModel& file : encoded.models) {
    writes.push_back(
        {folder / file.name, {std::as_bytes(std::span(file.bytes))}});
  }
  const auto path = [&](const char* name) {
    return folder / (options.prefix + name);
  };
  SerializedCheckpoint checkpoint = SerializeCheckpoint(encoded.store, false);
  if (checkpoint.has_external_data) {
    writes.push_back({ExternalDataPath(path("checkpoint")),
                      std::move(checkpoint.external_data)});
  }
  writes.push_back({path("checkpoint"), {checkpoint.bytes}});
  SerializedCheckpoint nominal;
  if (options.nominal_checkpoint) {
    MakeNominal(encoded.store);
    nominal = SerializeCheckpoint(encoded.store, false);
    writes.push_back({path("nominal_checkpoint"), {nominal.bytes}});
  }
  environment.files().CreateDirectories(folder);
  environment.files().Write(writes);
  return std::move(encoded.report);
}

TrainabilityReport CheckTrainability(
    const ModelSource& model, const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops) {
  return CheckTrainabilityOf(ReadSource(model, environment), custom_ops);
}

}  // namespace strop
