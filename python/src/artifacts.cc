// SPDX-License-Identifier: Apache-2.0
//
// The maker of artifacts. Python's own faces (strop.artifacts, onnxblock) are
// written on these.
#include "strop/artifacts.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>

#include "artifacts/faults.h"
#include "artifacts/training_graphs.h"
#include "checkpoint/checkpoint_format.h"
#include "graph/onnx_io_wire.h"
#include "memory_files.h"
#include "model_argument.h"
#include "ops/infer_shapes.h"
#include "ops/registry.h"

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
  result["files"] = report.files;
  result["names_used"] = report.names_used;
  return result;
}

// (name, element type, dims, bytes).
nb::tuple TensorOf(const std::string& name, const Tensor& value) {
  const Shape& shape = value.shape();
  return nb::make_tuple(name, static_cast<int>(value.type()),
                        std::vector<int64_t>(shape.begin(), shape.end()),
                        nb::bytes(value.bytes().data(), value.bytes().size()));
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

nb::object DimsOf(const std::optional<std::vector<Dimension>>& dims) {
  if (!dims) return nb::none();
  nb::list result;
  for (const Dimension& dimension : *dims) {
    if (dimension.value)
      result.append(*dimension.value);
    else if (dimension.symbol.empty() || IsDerivedSymbol(dimension.symbol))
      result.append(nb::none());
    else
      result.append(dimension.symbol);
  }
  return result;
}

struct BlockFaults {
  std::vector<std::string> faults;
  // Operators that Strop does not have: (domain, operator, text). They may be
  // the user's own, or fit where no gradient passes.
  std::vector<std::array<std::string, 3>> unknown;
};

// Nodes whose results nobody reads yet count like all others.
BlockFaults FaultsOfBlocks(Graph graph, const InferenceReport& inference) {
  const auto consumers = graph.Consumers();
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (const NodeId id : order)
    for (const ValueId output : graph.node(id).outputs)
      if (output && consumers[static_cast<size_t>(output.index)].empty() &&
          !graph.value(output).is_output)
        graph.MarkOutput(output);
  BlockFaults found;
  for (const Fault& fault : FaultsOf(graph, inference, {})) {
    const Node& node = graph.node(fault.node);
    if (FindOp(node.domain, node.op_type, graph.opset(node.domain)) != nullptr)
      found.faults.push_back(fault.text);
    else
      found.unknown.push_back({node.domain, node.op_type, fault.text});
  }
  return found;
}

nb::tuple InferTypes(nb::bytes bytes) {
  Model model;
  BlockFaults found;
  {
    const std::span source(reinterpret_cast<const std::byte*>(bytes.data()),
                           bytes.size());
    const nb::gil_scoped_release release;
    model = ReadOnnx(source);
    const InferenceReport inference = InferShapes(model.graph);
    found = FaultsOfBlocks(model.graph, inference);
  }
  nb::list types;
  for (size_t i = 0; i < model.graph.value_count(); ++i) {
    const Value& value = model.graph.value(ValueId{static_cast<int32_t>(i)});
    const ValueType& type = value.type;
    const bool is_list = type.kind == ValueType::Kind::kTensorList;
    if ((type.kind != ValueType::Kind::kTensor && !is_list) ||
        type.element == DataType::kUndefined)
      continue;
    types.append(nb::make_tuple(value.name, is_list,
                                static_cast<int>(type.element),
                                DimsOf(type.dims)));
  }
  nb::list unknown;
  for (const auto& [domain, op, text] : found.unknown) {
    nb::list entry;
    for (const std::string& part : {domain, op, text}) entry.append(part);
    unknown.append(entry);
  }
  return nb::make_tuple(types, found.faults, unknown);
}

// Views of serialized TensorProtos, whose data `kept` owns.
void AddTensors(const nb::list& protos, bool requires_grad,
                std::vector<TensorData>& kept, ParameterStore& store) {
  for (const nb::handle proto : protos) {
    const nb::bytes bytes = nb::cast<nb::bytes>(proto);
    onnx::ReadContext context;
    kept.push_back(onnx::DecodeTensor({bytes.c_str(), bytes.size()},
                                      {nullptr, "parameters"}, context));
    strop::Parameter parameter;
    parameter.name = kept.back().name;
    if (store.Find(parameter.name) != nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the parameter \"" + parameter.name + "\" is there twice");
    }
    parameter.requires_grad = requires_grad;
    parameter.value = kept.back().view();
    store.parameters.push_back(std::move(parameter));
    std::ranges::sort(store.parameters, {}, &strop::Parameter::name);
  }
}

void SaveCheckpoint(const nb::list& trainable, const nb::list& frozen,
                    nb::handle path, bool nominal) {
  const std::filesystem::path to = PathOf(path);
  std::vector<TensorData> kept;
  CheckpointState state(ProcessEnvironment());
  AddTensors(trainable, true, kept, state.store());
  AddTensors(frozen, false, kept, state.store());
  if (nominal) state.store() = NominalOf(state.store());
  const nb::gil_scoped_release release;
  state.Save(to);
}

nb::list CheckpointTensors(const CheckpointState& state) {
  nb::list tensors;
  for (const std::string& name : state.ParameterNames())
    tensors.append(TensorOf(name, state.ParameterValue(name)));
  return tensors;
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
      .def_rw("only_named", &ArtifactOptions::only_named)
      .def_rw("losses", &ArtifactOptions::losses)
      .def_rw("additional_output_names",
              &ArtifactOptions::additional_output_names)
      .def_rw("keep_outputs", &ArtifactOptions::keep_outputs)
      .def_rw("optimizer", &ArtifactOptions::optimizer)
      .def_rw("adamw", &ArtifactOptions::adamw)
      .def_rw("clip_grad_norm", &ArtifactOptions::clip_grad_norm)
      .def_rw("nominal_checkpoint", &ArtifactOptions::nominal_checkpoint)
      .def_rw("opset", &ArtifactOptions::opset)
      .def_rw("prefix", &ArtifactOptions::prefix)
      .def_rw("names_used", &ArtifactOptions::names_used);
}

}  // namespace

void BindArtifacts(nb::module_& module) {
  BindLoss(module);
  BindOptions(module);
  nb::class_<Artifacts>(module, "Artifacts")
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
  module.def(
      "infer_types", &InferTypes, "model"_a,
      nb::sig("def infer_types(model: bytes) -> tuple[list[tuple[str, bool, "
              "int, list[int | str | None] | None]], list[str], "
              "list[list[str]]]"),
      "([(name, is a list, element type, dims or None)], [faults], [[domain, "
      "unknown operator, text]]).");
  module.def("save_checkpoint", &SaveCheckpoint, "trainable"_a, "frozen"_a,
             "path"_a, "nominal"_a,
             nb::sig("def save_checkpoint(trainable: list[bytes], frozen: "
                     "list[bytes], path: object, nominal: bool) -> None"),
             "Writes serialized TensorProtos as a checkpoint.");
  module.def("checkpoint_tensors", &CheckpointTensors, "state"_a,
             nb::sig("def checkpoint_tensors(state: CheckpointState) -> "
                     "list[tuple[str, int, list[int], bytes]]"),
             "[(name, element type, dims, bytes)].");
}

}  // namespace strop::python
