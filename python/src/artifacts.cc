// SPDX-License-Identifier: Apache-2.0
//
// The maker of artifacts. Python's own faces (strop.artifacts, onnxblock) are
// written on these.
#include "strop/artifacts.h"

#include <nanobind/stl/optional.h>

#include "artifacts/training_graphs.h"
#include "checkpoint/checkpoint_format.h"
#include "memory_files.h"
#include "model_argument.h"
#include "objects.h"

namespace strop::python {
namespace {

using namespace nb::literals;

nb::dict ReportOf(const ArtifactReport& report) {
  nb::dict result;
  result["trainable"] = report.trainable;
  result["frozen"] = report.frozen;
  result["trained_inputs"] = report.trained_inputs;
  result["loss_name"] = report.loss_name;
  result["user_inputs"] = report.user_inputs;
  result["user_outputs"] = report.user_outputs;
  result["notes"] = report.notes;
  result["files"] = report.files;
  result["names_used"] = report.names_used;
  return result;
}

// Artifacts that were made and may now be looked at, added to and written.
class Artifacts {
 public:
  Artifacts(nb::handle model, const ArtifactOptions& options)
      : options_(options) {
    const ModelArgument argument(model);
    Encode(argument.source(), ProcessEnvironment());
  }

  // `bytes` as the file `path`, beside which `buffers` are files too.
  Artifacts(nb::bytes bytes, nb::handle path, nb::dict buffers,
            const ArtifactOptions& options)
      : options_(options), keep_(nb::make_tuple(bytes, buffers)) {
    const auto files = std::make_shared<MemoryFiles>(FileSystem::Default());
    const std::filesystem::path model = PathOf(path);
    files->Add(model, bytes);
    for (const auto& [name, buffer] : buffers) {
      files->Add(model.parent_path() / nb::cast<std::string>(name),
                 nb::cast<nb::bytes>(buffer));
    }
    environment_ = std::make_unique<Environment>(EnvironmentOptions{
        .num_threads = 1, .log = ProcessEnvironment().log(), .files = files});
    Encode(model, *environment_);
  }

  nb::dict report() const { return ReportOf(encoded_->report); }

  // (trainable, frozen) in the order of the report; see TensorOf.
  nb::tuple Parameters() {
    const auto all = [&](const std::vector<std::string>& names) {
      nb::list tensors;
      for (const std::string& name : names)
        tensors.append(TensorOf(name, encoded_->store.Get(name).value));
      return tensors;
    };
    return nb::make_tuple(all(encoded_->report.trainable),
                          all(encoded_->report.frozen));
  }

  // Another file beside the artifacts; its name gets the prefix too.
  void AddModel(const std::string& name, nb::bytes bytes) {
    encoded_->models.push_back(
        {options_.prefix + name, {bytes.c_str(), bytes.size()}, {}, nullptr});
  }

  // The files by name. Tensors beside a model are refused.
  nb::dict Files() {
    nb::dict files;
    const auto add = [&](const std::string& name, const void* bytes,
                         size_t count) {
      files[nb::cast(name)] = nb::bytes(bytes, count);
    };
    for (const EncodedModel& file : encoded_->models) {
      if (!file.data.empty()) {
        throw Error(ErrorCode::kInvalidArgument,
                    file.name + " is above 2 GB: write it to a folder");
      }
      add(file.name, file.bytes.data(), file.bytes.size());
    }
    const SerializedCheckpoint checkpoint =
        SerializeCheckpoint(encoded_->store, false);
    if (checkpoint.has_external_data) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the checkpoint is above 2 GB: write it to a folder");
    }
    add(options_.prefix + "checkpoint", checkpoint.bytes.data(),
        checkpoint.bytes.size());
    if (options_.nominal_checkpoint) {
      const SerializedCheckpoint nominal =
          SerializeCheckpoint(NominalOf(encoded_->store), false);
      add(options_.prefix + "nominal_checkpoint", nominal.bytes.data(),
          nominal.bytes.size());
    }
    return files;
  }

  // The models alone, without their prefix.
  nb::dict Models() {
    nb::dict models;
    for (const EncodedModel& file : encoded_->models) {
      if (!file.data.empty()) {
        throw Error(ErrorCode::kInvalidArgument,
                    file.name +
                        " is above 2 GB, of what is neither trained nor "
                        "frozen: write it to a folder");
      }
      models[nb::cast(file.name.substr(options_.prefix.size()))] =
          nb::bytes(file.bytes.data(), file.bytes.size());
    }
    return models;
  }

  // The report, which tells the files too.
  nb::dict Write(nb::handle folder) {
    const std::filesystem::path to = PathOf(folder);
    const Environment& environment =
        environment_ ? *environment_ : ProcessEnvironment();
    const ArtifactReport report = [&] {
      const nb::gil_scoped_release release;
      return WriteArtifacts(*encoded_, options_, to, environment);
    }();
    return ReportOf(report);
  }

 private:
  void Encode(const ModelSource& source, const Environment& environment) {
    const nb::gil_scoped_release release;
    encoded_.emplace(EncodeArtifacts(source, options_, environment));
  }

  ArtifactOptions options_;
  nb::object keep_;  // what the models point into
  std::unique_ptr<Environment> environment_;
  std::optional<EncodedArtifacts> encoded_;
};

nb::dict Check(nb::handle model) {
  const ModelArgument argument(model);
  const TrainabilityReport report =
      CheckTrainability(argument.source(), ProcessEnvironment());
  nb::list parameters;
  for (const ParameterReport& parameter : report.parameters) {
    nb::dict entry;
    entry["name"] = parameter.name;
    entry["dtype"] = DataTypeName(parameter.type);
    entry["shape"] = nb::tuple(nb::cast(parameter.dims));
    entry["trains"] = parameter.trains;
    entry["why_not"] = parameter.why_not;
    entry["origin"] = parameter.origin;
    parameters.append(entry);
  }
  nb::dict result;
  result["can_train"] = report.can_train();
  result["opset"] = report.opset;
  result["ir_version"] = report.ir_version;
  result["node_count"] = report.node_count;
  result["inputs"] = report.inputs;
  result["outputs"] = report.outputs;
  result["parameters"] = parameters;
  result["untrained"] = report.untrained;
  result["blockers"] = report.blockers;
  result["notes"] = report.notes;
  return result;
}

}  // namespace

void BindArtifacts(nb::module_& module) {
  nb::class_<Artifacts>(
      module, "Artifacts",
      "Artifacts in memory, which may be added to and written;\n"
      "strop.artifacts is the public face.")
      .def(nb::init<nb::handle, const ArtifactOptions&>(), "model"_a,
           "options"_a)
      .def(nb::init<nb::bytes, nb::handle, nb::dict, const ArtifactOptions&>(),
           "model"_a, "path"_a, "buffers"_a, "options"_a,
           nb::sig("def __init__(self, model: bytes, path: object, buffers: "
                   "dict[str, bytes], options: ArtifactOptions) -> None"))
      .def_prop_ro("report", &Artifacts::report,
                   nb::sig("def report(self) -> dict[str, typing.Any]"))
      .def("parameters", &Artifacts::Parameters,
           nb::sig("def parameters(self) -> tuple["
                   "list[tuple[str, int, list[int], bytes]], "
                   "list[tuple[str, int, list[int], bytes]]]"))
      .def("add_model", &Artifacts::AddModel, "name"_a, "data"_a)
      .def("files", &Artifacts::Files,
           nb::sig("def files(self) -> dict[str, bytes]"))
      .def("models", &Artifacts::Models,
           nb::sig("def models(self) -> dict[str, bytes]"))
      .def("write", &Artifacts::Write, "folder"_a,
           nb::sig("def write(self, folder: object) -> "
                   "dict[str, typing.Any]"));
  module.def(
      "generate_artifacts",
      [](nb::handle model, const ArtifactOptions& options, nb::handle folder) {
        Artifacts artifacts(model, options);
        return artifacts.Write(folder);
      },
      "model"_a, "options"_a, "folder"_a,
      nb::sig("def generate_artifacts(model: object, options: ArtifactOptions, "
              "folder: object) -> dict[str, typing.Any]"),
      "Writes the artifacts into the folder; returns the report.");
  module.def(
      "make_artifacts",
      [](nb::handle model, const ArtifactOptions& options) {
        Artifacts artifacts(model, options);
        return nb::make_tuple(artifacts.Files(), artifacts.report());
      },
      "model"_a, "options"_a,
      nb::sig("def make_artifacts(model: object, options: ArtifactOptions) "
              "-> tuple[dict[str, bytes], dict[str, typing.Any]]"),
      "({file name: bytes}, report).");
  module.def("check", &Check, "model"_a,
             nb::sig("def check(model: object) -> dict[str, typing.Any]"),
             "What of the model can be trained, as a dict.");
}

}  // namespace strop::python
