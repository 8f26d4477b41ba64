// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <system_error>

#include "artifacts/training_graphs.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "graph/onnx_io.h"
#include "strop/environment.h"

namespace strop {
namespace {

// Notes which files are opened.
class NotingFiles final : public FileSystem {
 public:
  explicit NotingFiles(FileSystem& files) : files_(files) {}

  bool Exists(const std::filesystem::path& path) override {
    return files_.Exists(path);
  }
  bool IsDirectory(const std::filesystem::path& path) override {
    return files_.IsDirectory(path);
  }
  FileContents Open(const std::filesystem::path& path) override {
    opened_.push_back(path);
    return files_.Open(path);
  }
  void Write(std::span<const FileToWrite> files) override {
    files_.Write(files);
  }
  void CreateDirectories(const std::filesystem::path& path) override {
    files_.CreateDirectories(path);
  }

  const std::vector<std::filesystem::path>& opened() const { return opened_; }

 private:
  FileSystem& files_;
  std::vector<std::filesystem::path> opened_;
};

Model ReadSource(const ModelSource& source, FileSystem& files,
                 const Environment& environment) {
  const OnnxReadOptions options = {.log = environment.log()};
  if (const auto* path = std::get_if<std::filesystem::path>(&source))
    return ReadOnnx(*path, files, options);
  return ReadOnnx(std::get<std::span<const std::byte>>(source), options);
}

// The same file, through links too.
bool IsSame(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const std::filesystem::path x = std::filesystem::weakly_canonical(a, error);
  const std::filesystem::path y = std::filesystem::weakly_canonical(b, error);
  return !x.empty() && x == y;
}

void CheckSourcesStay(const std::vector<FileToWrite>& writes,
                      const std::vector<std::filesystem::path>& sources) {
  for (const FileToWrite& write : writes) {
    for (const std::filesystem::path& source : sources) {
      if (!IsSame(write.path, source)) continue;
      Throw(ErrorCode::kInvalidArgument,
            "{} would take the place of {}, which the model is read from",
            PathText(write.path), PathText(source));
    }
  }
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

// Which files are written, and which of an earlier run they do not replace.
void ReportFiles(const std::vector<FileToWrite>& writes,
                 const ArtifactOptions& options,
                 const std::filesystem::path& folder, FileSystem& files,
                 ArtifactReport& report) {
  for (const FileToWrite& write : writes)
    report.files.push_back(PathText(write.path.filename()));
  for (const char* file : {"optimizer_model.onnx", "nominal_checkpoint"}) {
    const std::string name = options.prefix + file;
    if (std::ranges::find(report.files, name) != report.files.end() ||
        !files.Exists(folder / name))
      continue;
    report.notes.push_back(
        fmt::format("{} was there before and does not belong to these "
                    "artifacts",
                    PathText(folder / name)));
  }
}

}  // namespace

ParameterStore NominalOf(const ParameterStore& store) {
  ParameterStore nominal(*store.environment);
  nominal.is_nominal = true;
  for (const Parameter& parameter : store.parameters) {
    Parameter name;
    name.name = parameter.name;
    name.requires_grad = parameter.requires_grad;
    // What stands for a value is what ONNX Runtime writes.
    name.value = Tensor(DataType::kFloat32, {}, nullptr);
    nominal.parameters.push_back(std::move(name));
  }
  return nominal;
}

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

EncodedArtifacts EncodeArtifacts(const ModelSource& model,
                                 const ArtifactOptions& options,
                                 const Environment& environment,
                                 std::span<const CustomOpDomain* const> custom,
                                 const OnnxWriteOptions& write) {
  NotingFiles files(environment.files());
  std::optional<Model> loss_model;
  if (options.loss_model)
    loss_model = ReadSource(*options.loss_model, files, environment);
  TrainingModels models =
      MakeTrainingModels(ReadSource(model, files, environment), options,
                         std::move(loss_model), custom);
  EncodedArtifacts encoded{std::move(models.report),
                           MakeParameterStore(models, environment),
                           {},
                           files.opened()};
  const auto add = [&](const char* file, const Model& made) {
    const std::string name = options.prefix + file;
    EncodedOnnx onnx = EncodeOnnx(made, name, write);
    encoded.models.push_back({name, std::move(onnx.bytes), std::move(onnx.data),
                              std::move(onnx.owner)});
  };
  add("training_model.onnx", models.training);
  add("eval_model.onnx", models.eval);
  if (models.optimizer) add("optimizer_model.onnx", *models.optimizer);
  return encoded;
}

ArtifactReport WriteArtifacts(const EncodedArtifacts& encoded,
                              const ArtifactOptions& options,
                              const std::filesystem::path& folder,
                              const Environment& environment) {
  std::vector<FileToWrite> writes;
  for (const EncodedModel& file : encoded.models) {
    // The data come first: a reader that sees the new model finds them.
    if (!file.data.empty())
      writes.push_back({folder / (file.name + ".data"), file.data});
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
    nominal = SerializeCheckpoint(NominalOf(encoded.store), false);
    writes.push_back({path("nominal_checkpoint"), {nominal.bytes}});
  }
  CheckSourcesStay(writes, encoded.sources);
  ArtifactReport report = encoded.report;
  ReportFiles(writes, options, folder, environment.files(), report);
  environment.files().CreateDirectories(folder);
  environment.files().Write(writes);
  return report;
}

ArtifactReport GenerateArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const std::filesystem::path& folder, const Environment& environment,
    std::span<const CustomOpDomain* const> custom) {
  // Everything is encoded before the first file is written.
  return WriteArtifacts(EncodeArtifacts(model, options, environment, custom),
                        options, folder, environment);
}

TrainabilityReport CheckTrainability(
    const ModelSource& model, const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops) {
  return CheckTrainabilityOf(
      ReadSource(model, environment.files(), environment), custom_ops);
}

}  // namespace strop
