// SPDX-License-Identifier: Apache-2.0
//
// The maker of artifacts. Python's own faces (strop.artifacts, onnxblock) are
// written on these.
#include "strop/artifacts.h"

#include <nanobind/stl/optional.h>

#include "artifacts/training_graphs.h"
#include "checkpoint/checkpoint_format.h"
#include "model_argument.h"

namespace strop::python {
namespace {

using namespace nb::literals;

std::shared_ptr<const OwnedTensor> OwnedCopy(nb::handle array,
                                             const char* name) {
  if (array.is_none()) return nullptr;
  return std::make_shared<const OwnedTensor>(ArrayIn(array, name).tensor());
}

nb::dict ReportOf(const ArtifactReport& report) {
  nb::dict result;
  result["trainable"] = report.trainable;
  result["frozen"] = report.frozen;
  result["loss_name"] = report.loss_name;
  result["user_inputs"] = report.user_inputs;
  result["user_outputs"] = report.user_outputs;
  result["notes"] = report.notes;
  return result;
}

// The files by name, and the report. Tensors beside a model are refused.
nb::tuple MakeArtifacts(nb::handle model, const ArtifactOptions& options) {
  const ModelArgument argument(model);
  std::optional<EncodedArtifacts> encoded;
  SerializedCheckpoint checkpoint;
  {
    const nb::gil_scoped_release release;
    encoded = EncodeArtifacts(argument.source(), options, ProcessEnvironment());
    checkpoint = SerializeCheckpoint(encoded->store, false);
  }
  nb::dict files;
  const auto add = [&](const std::string& name, const void* bytes,
                       size_t count) {
    files[nb::cast(name)] = nb::bytes(bytes, count);
  };
  for (const EncodedModel& file : encoded->models) {
    if (!file.data.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  file.name + " is above 2 GB: give a folder to write it to");
    }
    add(file.name, file.bytes.data(), file.bytes.size());
  }
  add(options.prefix + "checkpoint", checkpoint.bytes.data(),
      checkpoint.bytes.size());
  return nb::make_tuple(files, ReportOf(encoded->report));
}

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

void BindLoss(nb::module_& module) {
  nb::enum_<LossKind>(module, "LossKind")
      .value("MSE", LossKind::kMeanSquaredError)
      .value("CROSS_ENTROPY", LossKind::kCrossEntropy)
      .value("BCE_WITH_LOGITS", LossKind::kBinaryCrossEntropyWithLogits)
      .value("L1", LossKind::kL1);
  nb::enum_<Reduction>(module, "Reduction")
      .value("MEAN", Reduction::kMean)
      .value("SUM", Reduction::kSum)
      .value("NONE", Reduction::kNone);
  nb::class_<Loss>(module, "Loss")
      .def(nb::init<>())
      .def_rw("kind", &Loss::kind)
      .def_rw("input", &Loss::input)
      .def_rw("target", &Loss::target)
      .def_rw("weight", &Loss::weight)
      .def_rw("reduction", &Loss::reduction)
      .def_rw("ignore_index", &Loss::ignore_index)
      .def("set_weights",
           [](Loss& loss, nb::handle array) {
             loss.weights = OwnedCopy(array, "weights");
           })
      .def("set_positive_weights", [](Loss& loss, nb::handle array) {
        loss.positive_weights = OwnedCopy(array, "pos_weight");
      });
}

void BindOptions(nb::module_& module) {
  nb::enum_<OptimizerKind>(module, "OptimizerKind")
      .value("NONE", OptimizerKind::kNone)
      .value("ADAMW", OptimizerKind::kAdamW)
      .value("SGD", OptimizerKind::kSgd);
  nb::class_<AdamWOptions>(module, "AdamWOptions")
      .def(nb::init<>())
      .def_rw("beta1", &AdamWOptions::beta1)
      .def_rw("beta2", &AdamWOptions::beta2)
      .def_rw("epsilon", &AdamWOptions::epsilon)
      .def_rw("weight_decay", &AdamWOptions::weight_decay)
      .def_rw("bias_correction", &AdamWOptions::bias_correction);
  nb::class_<ArtifactOptions>(module, "ArtifactOptions")
      .def(nb::init<>())
      .def_rw("requires_grad", &ArtifactOptions::requires_grad)
      .def_rw("frozen_params", &ArtifactOptions::frozen_params)
      .def_rw("losses", &ArtifactOptions::losses)
      .def_rw("additional_output_names",
              &ArtifactOptions::additional_output_names)
      .def_rw("keep_outputs", &ArtifactOptions::keep_outputs)
      .def_rw("optimizer", &ArtifactOptions::optimizer)
      .def_rw("adamw", &ArtifactOptions::adamw)
      .def_rw("clip_grad_norm", &ArtifactOptions::clip_grad_norm)
      .def_rw("nominal_checkpoint", &ArtifactOptions::nominal_checkpoint)
      .def_rw("prefix", &ArtifactOptions::prefix);
}

}  // namespace

void BindArtifacts(nb::module_& module) {
  BindLoss(module);
  BindOptions(module);
  module.def(
      "generate_artifacts",
      [](nb::handle model, const ArtifactOptions& options, nb::handle folder) {
        const ModelArgument argument(model);
        const std::filesystem::path to = PathOf(folder);
        const auto report = [&] {
          const nb::gil_scoped_release release;
          return GenerateArtifacts(argument.source(), options, to,
                                   ProcessEnvironment());
        }();
        return ReportOf(report);
      },
      "model"_a, "options"_a, "folder"_a,
      nb::sig("def generate_artifacts(model: object, options: ArtifactOptions, "
              "folder: object) -> dict[str, typing.Any]"),
      "Writes the artifacts into the folder; returns the report.");
  module.def(
      "make_artifacts", &MakeArtifacts, "model"_a, "options"_a,
      nb::sig("def make_artifacts(model: object, options: ArtifactOptions) "
              "-> tuple[dict[str, bytes], dict[str, typing.Any]]"),
      "({file name: bytes}, report).");
  module.def("check", &Check, "model"_a,
             nb::sig("def check(model: object) -> dict[str, typing.Any]"),
             "What of the model can be trained, as a dict.");
}

}  // namespace strop::python
