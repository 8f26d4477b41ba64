// SPDX-License-Identifier: Apache-2.0
//
// Module, Optimizer and LinearLRScheduler.
#include <nanobind/stl/optional.h>

#include <optional>

#include "model_argument.h"
#include "objects.h"

namespace strop::python {
namespace {

using namespace nb::literals;

void CheckDevice(const std::string& device) {
  if (device == "cpu" || device == "cpu:0") return;
  throw Error(ErrorCode::kInvalidArgument,
              "device \"" + device + "\" is not supported; there is \"cpu\"");
}

class ModuleObject {
 public:
  ModuleObject(nb::handle train, nb::object state, nb::handle eval,
               const std::string& device, nb::handle options)
      : state_(std::move(state)), options_(SessionOptionsOf(options)) {
    CheckDevice(device);
    if (!nb::isinstance<CheckpointState>(state_))
      throw nb::type_error("state: a CheckpointState is wanted");
    const ModelArgument train_model(train);
    std::optional<ModelArgument> eval_model;
    if (!eval.is_none()) eval_model.emplace(eval);
    ModelIdentifiers models = {.train = train_model.source()};
    if (eval_model) models.eval = eval_model->source();
    const nb::gil_scoped_release release;
    module_ =
        std::make_unique<Module>(models, nb::inst_ptr<CheckpointState>(state_),
                                 options_, ProcessEnvironment());
  }

  // One step in the mode the module is in.
  nb::object Call(const nb::args& inputs, const nb::kwargs& keywords) {
    nb::handle out;
    for (const auto& [key, value] : keywords) {
      if (std::string(nb::str(key).c_str()) != "out") {
        throw nb::type_error("a step takes its inputs by position, and out=");
      }
      if (!value.is_none()) out = value;
    }
    const ArraysIn arrays(inputs, InputNames());
    return out ? StepInto(arrays.tensors(), out) : Step(arrays.tensors());
  }

  const std::vector<std::string>& InputNames() const {
    return training ? module_->TrainingInputNames() : module_->EvalInputNames();
  }
  const std::vector<std::string>& OutputNames() const {
    return training ? module_->TrainingOutputNames()
                    : module_->EvalOutputNames();
  }

  nb::object ContiguousParameters(bool trainable_only) const {
    OwnedTensor buffer(DataType::kFloat32,
                       {module_->GetParametersSize(trainable_only)});
    module_->CopyParametersToBuffer(buffer, trainable_only);
    return ToNumpy(std::move(buffer));
  }

  void CopyBuffer(nb::handle buffer, bool trainable_only) {
    const ArrayIn array(buffer, "buffer");
    module_->CopyBufferToParameters(array.tensor(), trainable_only);
  }

  void Export(nb::handle path, const std::vector<std::string>& outputs) const {
    const std::filesystem::path to = PathOf(path);
    const nb::gil_scoped_release release;
    module_->ExportModelForInferencing(to, outputs);
  }

  Module& module() const { return *module_; }
  nb::object state() const { return state_; }
  const SessionOptions& options() const { return options_; }

  bool training = true;

 private:
  nb::object Step(const std::vector<Tensor>& inputs) {
    std::vector<OwnedTensor> outputs;
    {
      const nb::gil_scoped_release release;
      if (training) {
        module_->TrainStep(inputs, &outputs);
      } else {
        module_->EvalStep(inputs, &outputs);
      }
    }
    if (outputs.size() == 1) return ToNumpy(std::move(outputs[0]));
    nb::list results;
    for (OwnedTensor& output : outputs)
      results.append(ToNumpy(std::move(output)));
    return nb::tuple(results);
  }

  nb::object StepInto(const std::vector<Tensor>& inputs, nb::handle out) {
    std::vector<Tensor> outputs;
    if (nb::isinstance<nb::tuple>(out) || nb::isinstance<nb::list>(out)) {
      for (const nb::handle array : nb::iter(out))
        outputs.push_back(TensorToFill(array, "out"));
    } else {
      outputs.push_back(TensorToFill(out, "out"));
    }
    const nb::gil_scoped_release release;
    if (training) {
      module_->TrainStep(inputs, outputs);
    } else {
      module_->EvalStep(inputs, outputs);
    }
    return nb::borrow(out);
  }

  nb::object state_;
  SessionOptions options_;
  std::unique_ptr<Module> module_;
};

struct OptimizerObject {
  OptimizerObject(nb::handle model, nb::object of) : module(std::move(of)) {
    const auto& trained = nb::cast<const ModuleObject&>(module);
    const ModelArgument argument(model);
    const ModelIdentifiers models = {.train = {},
                                     .optimizer = argument.source()};
    optimizer = std::make_shared<Optimizer>(
        models, nb::inst_ptr<CheckpointState>(trained.state()),
        trained.options(), ProcessEnvironment());
  }

  nb::object module;
  std::shared_ptr<Optimizer> optimizer;
};

struct SchedulerObject {
  SchedulerObject(nb::object of, int64_t warmup, int64_t total, float rate)
      : optimizer(std::move(of)) {
    if (!nb::isinstance<OptimizerObject>(optimizer))
      throw nb::type_error("optimizer: an Optimizer is wanted");
    auto& object = nb::cast<OptimizerObject&>(optimizer);
    object.optimizer->SetInitialLearningRate(rate);
    scheduler.emplace(object.optimizer, warmup, total);
  }

  nb::object optimizer;
  std::optional<LinearLRScheduler> scheduler;
};

void BindModule(nb::module_& module) {
  nb::class_<ModuleObject>(
      module, "Module",
      "A model that trains.\n\n"
      "    state = CheckpointState.load_checkpoint(\"checkpoint\")\n"
      "    module = Module(\"training_model.onnx\", state, "
      "\"eval_model.onnx\")\n"
      "    loss = module(images, labels)   # a train step\n\n"
      "Models are paths, bytes, or onnx.ModelProto.")
      .def(nb::init<nb::handle, nb::object, nb::handle, const std::string&,
                    nb::handle>(),
           "train_model_uri"_a, "state"_a, "eval_model_uri"_a = nb::none(),
           "device"_a = "cpu", "session_options"_a = nb::none())
      .def("__call__", &ModuleObject::Call,
           nb::sig("def __call__(self, *inputs: object, out: object = None) -> "
                   "typing.Any"),
           "A train step in training mode, else a pass of the eval model.\n\n"
           "Inputs are arrays in the order of input_names(), of exactly the "
           "model's types. Returns the one output as an array, or a tuple of "
           "all; with out= (an array, or a sequence of them) they are written "
           "there. Gradients add up until lazy_reset_grad.")
      .def_rw("training", &ModuleObject::training,
              "Whether a call is a train step.")
      .def(
          "train",
          [](nb::object self, bool mode) {
            nb::cast<ModuleObject&>(self).training = mode;
            return self;
          },
          nb::sig("def train(self, mode: bool = True) -> Module"),
          "mode"_a = true, "Sets the mode; returns the module.")
      .def(
          "eval",
          [](nb::object self) {
            nb::cast<ModuleObject&>(self).training = false;
            return self;
          },
          nb::sig("def eval(self) -> Module"), "train(False).")
      .def(
          "lazy_reset_grad",
          [](ModuleObject& self) { self.module().LazyResetGrad(); },
          "The next train step overwrites the gradients.")
      .def("input_names", &ModuleObject::InputNames,
           "User inputs of the train or the eval model, by mode.")
      .def("output_names", &ModuleObject::OutputNames,
           "User outputs of the train or the eval model, by mode.")
      .def(
          "get_parameters_size",
          [](const ModuleObject& self, bool trainable_only) {
            return self.module().GetParametersSize(trainable_only);
          },
          "trainable_only"_a = true, "Elements of all parameters.")
      .def("get_contiguous_parameters", &ModuleObject::ContiguousParameters,
           nb::sig("def get_contiguous_parameters(self, trainable_only: bool = "
                   "False) -> numpy.ndarray"),
           "trainable_only"_a = false,
           "A copy of all parameters, one after the other: float32 [n].")
      .def("copy_buffer_to_parameters", &ModuleObject::CopyBuffer, "buffer"_a,
           "trainable_only"_a = true,
           "The inverse of get_contiguous_parameters. Completes a nominal "
           "state (trainable_only=False).")
      .def("export_model_for_inferencing", &ModuleObject::Export,
           "inference_model_uri"_a, "graph_output_names"_a,
           "Writes a model for inference with the current parameters, cut to "
           "the outputs.")
      .def(
          "write_profile",
          [](const ModuleObject& self, nb::handle path) {
            self.module().WriteProfile(PathOf(path));
          },
          "path"_a, "Writes collected times as a Chrome trace.")
      .def_prop_ro("state", &ModuleObject::state,
                   nb::sig("def state(self) -> CheckpointState"),
                   "The state that the module trains.");
}

}  // namespace

void BindTraining(nb::module_& module) {
  BindModule(module);
  nb::class_<OptimizerObject>(
      module, "Optimizer",
      "Updates the parameters of a module's state from their gradients.")
      .def(
          "__init__",
          [](OptimizerObject* self, nb::handle uri, nb::object of) {
            if (!nb::isinstance<ModuleObject>(of))
              throw nb::type_error("module: a Module is wanted");
            new (self) OptimizerObject(uri, std::move(of));
          },
          "optimizer_uri"_a, "module"_a)
      .def(
          "step",
          [](OptimizerObject& self) {
            const nb::gil_scoped_release release;
            self.optimizer->Step();
          },
          "One update of every trainable parameter.")
      .def(
          "set_learning_rate",
          [](OptimizerObject& self, float rate) {
            self.optimizer->SetLearningRate(rate);
          },
          "learning_rate"_a)
      .def(
          "get_learning_rate",
          [](const OptimizerObject& self) {
            return self.optimizer->GetLearningRate();
          },
          "0.001 before anything is set.")
      .def_prop_ro("step_count", [](const OptimizerObject& self) {
        return self.optimizer->step_count();
      });
  nb::class_<SchedulerObject>(
      module, "LinearLRScheduler",
      "A rate that rises from 0 during the warm-up and falls to 0 at the "
      "end.\n\nstep < warmup: initial_lr * step / warmup; then initial_lr * "
      "(total - step) / (total - warmup), at least 0.")
      .def(nb::init<nb::object, int64_t, int64_t, float>(), "optimizer"_a,
           "warmup_step_count"_a, "total_step_count"_a, "initial_lr"_a)
      .def(
          "step", [](SchedulerObject& self) { self.scheduler->Step(); },
          "Sets the rate for the optimizer's current step.");
}

}  // namespace strop::python
