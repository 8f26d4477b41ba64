// SPDX-License-Identifier: Apache-2.0
//
// Module, Optimizer and LinearLRScheduler.
#include <nanobind/stl/optional.h>

#include <mutex>
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

// Whether it is a T whose __init__ has run: a subclass may have left it out.
template <class T>
bool IsReady(nb::handle object) {
  return nb::isinstance<T>(object) && nb::inst_ready(object);
}

class ModuleObject {
 public:
  ModuleObject(nb::handle train, nb::object state, nb::handle eval,
               const std::string& device, nb::handle options)
      : state_(std::move(state)), options_(SessionOptionsOf(options)) {
    CheckDevice(device);
    if (!IsReady<CheckpointState>(state_))
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

  nb::object ContiguousParameters(bool trainable_only) {
    OwnedTensor buffer(DataType::kFloat32,
                       {module_->GetParametersSize(trainable_only)});
    Exclusively(
        [&] { module_->CopyParametersToBuffer(buffer, trainable_only); });
    return ToNumpy(std::move(buffer));
  }

  void CopyBuffer(nb::handle buffer, bool trainable_only) {
    const ArrayIn array(buffer, "buffer");
    Exclusively([&] {
      module_->CopyBufferToParameters(array.tensor(), trainable_only);
    });
  }

  void Export(nb::handle path, const std::vector<std::string>& outputs) {
    const std::filesystem::path to = PathOf(path);
    Exclusively([&] { module_->ExportModelForInferencing(to, outputs); });
  }

  void LazyResetGrad() {
    Exclusively([&] { module_->LazyResetGrad(); });
  }

  // Calls `work` without Python's lock, while no other thread is in a call of
  // this module or of its optimizers: the core runs one step at a time.
  template <class Work>
  void Exclusively(const Work& work) {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    work();
  }

  Module& module() const { return *module_; }
  nb::object state() const { return state_; }
  const SessionOptions& options() const { return options_; }

  bool training = true;

 private:
  nb::object Step(const std::vector<Tensor>& inputs) {
    std::vector<OwnedTensor> outputs;
    Exclusively([&, train = training] {
      if (train) {
        module_->TrainStep(inputs, &outputs);
      } else {
        module_->EvalStep(inputs, &outputs);
      }
    });
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
    Exclusively([&, train = training] {
      if (train) {
        module_->TrainStep(inputs, outputs);
      } else {
        module_->EvalStep(inputs, outputs);
      }
    });
    return nb::borrow(out);
  }

  nb::object state_;
  SessionOptions options_;
  std::unique_ptr<Module> module_;
  std::mutex mutex_;
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

  void Step() {
    nb::cast<ModuleObject&>(module).Exclusively([&] { optimizer->Step(); });
  }

  nb::object module;
  std::shared_ptr<Optimizer> optimizer;
};

// ONNX Runtime's Python binding takes the two counts the other way round, and
// scripts exchange them because of that.
constexpr char kCountsExchanged[] =
    "LinearLRScheduler: warmup_step_count is above total_step_count, so that "
    "the rate falls to 0 behind the warmup; unlike ONNX Runtime, the warmup "
    "comes first";

struct SchedulerObject {
  SchedulerObject(nb::object of, int64_t warmup, int64_t total, float rate,
                  int64_t first_step)
      : optimizer(std::move(of)) {
    if (!IsReady<OptimizerObject>(optimizer))
      throw nb::type_error("optimizer: an Optimizer is wanted");
    if (warmup > total && PyErr_WarnEx(PyExc_UserWarning, kCountsExchanged, 1))
      throw nb::python_error();
    auto& object = nb::cast<OptimizerObject&>(optimizer);
    object.optimizer->SetInitialLearningRate(rate);
    scheduler.emplace(object.optimizer, warmup, total, first_step);
  }

  nb::object optimizer;
  std::optional<LinearLRScheduler> scheduler;
};

// --- Docstrings

constexpr char kModule[] = R"(A model that trains: its steps compute gradients.

Threads may share a module and its optimizer: their calls run one after the
other.

Args:
    train_model_uri: the training model: a path, bytes, or an onnx.ModelProto.
    state: the CheckpointState with its parameters, which is shared, not
        copied.
    eval_model_uri: the eval model, for eval() and, given as a path, for
        export_model_for_inferencing. None: without.
    device: "cpu" or "cpu:0".
    session_options: SessionOptions, or any object with the attribute
        intra_op_num_threads. It is copied.

Raises:
    Error: FileNotFoundError where there is no file; ValueError where a model
        is damaged or malformed, does not fit the state, or another device or
        option is asked for; NotImplementedError for operators that Strop does
        not have. Objects of another kind raise TypeError.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state, "eval_model.onnx")
>>> optimizer = strop.Optimizer("optimizer_model.onnx", module)
>>> loss = module(x, labels)
>>> optimizer.step()
>>> module.lazy_reset_grad()
>>> bool(module.eval()(x, labels) < loss)
True)";

constexpr char kModuleCall[] =
    R"(A train step in training mode, else a pass of the eval model.

A train step computes the outputs and the gradients. The first one, and the
first after lazy_reset_grad, overwrites the gradients; others add to them.

Args:
    inputs: arrays in the order of input_names(), of exactly the model's
        element types and of shapes that fit it: NumPy arrays, PyTorch
        tensors, what else speaks DLPack or the buffer protocol, or lists of
        numbers, of the type that NumPy gives these. They are read where they
        lie if they are contiguous.
    out: an array, or a list or tuple of one per output, to be filled;
        contiguous, writable, and of the outputs' types and shapes.

Returns:
    The one output as a new NumPy array, or a tuple of all in the order of
    output_names(); the loss is the first. With `out`, that object.

Raises:
    Error: TypeError for another element type or no array, ValueError for
        another shape or count or a label that is no class, MemoryError beyond
        SessionOptions.memory_limit_bytes, ArithmeticError for a loss that is
        not finite where SessionOptions.non_finite is "error"; a plain Error
        in eval mode without an eval model, or while the state is nominal. The
        gradients and parameters are then as before.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state)
>>> module.input_names()
['input', 'labels']
>>> loss = module(x, labels)
>>> loss.shape
()
>>> module(x, labels, out=loss) is loss
True)";

constexpr char kContiguousParameters[] =
    R"(A copy of the parameters, one after the other.

Returns:
    A new NumPy array, float32 of shape [get_parameters_size(trainable_only)]:
    all parameters, or the trainable ones, in the order of the training
    model's inputs.

Raises:
    Error: TypeError where a parameter is not float32; a plain Error while the
        state is nominal.)";

constexpr char kCopyBuffer[] =
    R"(Sets the parameters from one array: undoes get_contiguous_parameters.

Args:
    buffer: float32 of get_parameters_size(trainable_only) elements.
    trainable_only: whether it holds the trainable parameters only. A nominal
        state needs all (False), and has values from then on.

Raises:
    Error: TypeError where the buffer or a parameter is not float32,
        ValueError for another number of elements; a plain Error for
        trainable_only on a nominal state.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state)
>>> flat = module.get_contiguous_parameters(trainable_only=True)
>>> flat.shape == (module.get_parameters_size(),)
True
>>> module.copy_buffer_to_parameters(flat / 2))";

constexpr char kExport[] =
    R"(Writes a model for inference with the current parameters.

Args:
    inference_model_uri: the file to write.
    graph_output_names: its outputs, any values of the eval model. Inputs that
        they do not need, such as labels, are left out.

Raises:
    Error: KeyError for a name that the eval model does not have, ValueError
        for none or an empty one, OSError where the file cannot be written; a
        plain Error where the eval model was not given as a path, or while the
        state is nominal.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state, "eval_model.onnx")
>>> module.export_model_for_inferencing("inference.onnx", ["output"])
>>> strop.Function("inference.onnx").input_names()
['input'])";

constexpr char kOptimizer[] =
    R"(Updates a state's parameters from their gradients: AdamW or SGD.

Args:
    optimizer_uri: the optimizer model: a path, bytes, or an onnx.ModelProto.
    module: the Module that computes the gradients. Its state keeps moments,
        step count and learning rate.

Raises:
    Error: FileNotFoundError where there is no file; ValueError where the
        model is no such optimizer, nothing is trained, or the moments in the
        state do not fit. TypeError for what is no Module.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state)
>>> optimizer = strop.Optimizer("optimizer_model.onnx", module)
>>> optimizer.set_learning_rate(0.5)
>>> _ = module(x, labels)
>>> optimizer.step()
>>> optimizer.step_count, optimizer.get_learning_rate()
(1, 0.5))";

constexpr char kScheduler[] =
    R"(A learning rate that rises from 0, then falls to 0, both linearly.

After s steps from first_step on it is initial_lr * s / warmup_step_count while
s < warmup_step_count, then initial_lr * (total_step_count - s) /
(total_step_count - warmup_step_count), and 0 from total_step_count on. It is
set at once, so with a warm-up the first step has rate 0.

Args:
    optimizer: the Optimizer whose rate is set.
    warmup_step_count: steps of the warm-up; 0 for none.
    total_step_count: all steps, the warm-up among them.
    initial_lr: the highest rate.
    first_step: the optimizer's step_count where the schedule begins. With 0,
        steps of an earlier run whose state was loaded are part of it.

TypeError is raised for what is no Optimizer; a UserWarning tells where the
warm-up is longer than the whole.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state)
>>> optimizer = strop.Optimizer("optimizer_model.onnx", module)
>>> scheduler = strop.LinearLRScheduler(optimizer, 2, 4, initial_lr=0.5)
>>> for _ in range(4):
...     print(optimizer.get_learning_rate())
...     loss = module(x, labels)
...     optimizer.step()
...     scheduler.step()
0.0
0.25
0.5
0.25)";

// --- Bindings

void BindModule(nb::module_& module) {
  nb::class_<ModuleObject>(module, "Module", kModule)
      .def(nb::init<nb::handle, nb::object, nb::handle, const std::string&,
                    nb::handle>(),
           "train_model_uri"_a, "state"_a, "eval_model_uri"_a = nb::none(),
           "device"_a = "cpu", "session_options"_a = nb::none(),
           nb::sig("def __init__(self, train_model_uri: object, state: "
                   "CheckpointState, eval_model_uri: object = None, device: "
                   "str = 'cpu', session_options: object = None) -> None"),
           "See the class.")
      .def("__call__", &ModuleObject::Call,
           nb::sig("def __call__(self, *inputs: object, out: object = None) -> "
                   "typing.Any"),
           kModuleCall)
      .def_rw("training", &ModuleObject::training,
              "Whether a call is a train step, a bool; True at first.")
      .def(
          "train",
          [](ModuleObject& self, bool mode) -> ModuleObject& {
            self.training = mode;
            return self;
          },
          nb::rv_policy::reference,
          nb::sig("def train(self, mode: bool = True) -> Module"),
          "mode"_a = true,
          "Makes calls train steps, or with False passes of the\n"
          "eval model; returns the module.")
      .def(
          "eval",
          [](ModuleObject& self) -> ModuleObject& {
            self.training = false;
            return self;
          },
          nb::rv_policy::reference, nb::sig("def eval(self) -> Module"),
          "The same as train(False).")
      .def("lazy_reset_grad", &ModuleObject::LazyResetGrad,
           "Makes the next train step overwrite the gradients\n"
           "instead of adding to them. Until then they stay as they\n"
           "are.")
      .def("input_names", &ModuleObject::InputNames,
           "The names of what a call takes, in order: of the train\n"
           "model in training mode, else of the eval model (none\n"
           "without one). Parameters are left out.")
      .def("output_names", &ModuleObject::OutputNames,
           "The names of what a call returns, in order: of the train\n"
           "model in training mode, else of the eval model (none\n"
           "without one).")
      .def(
          "get_parameters_size",
          [](const ModuleObject& self, bool trainable_only) {
            return self.module().GetParametersSize(trainable_only);
          },
          "trainable_only"_a = true,
          "The number of elements of all trainable parameters, or\n"
          "with False of all parameters, a nominal state's too.")
      .def("get_contiguous_parameters", &ModuleObject::ContiguousParameters,
           nb::sig("def get_contiguous_parameters(self, trainable_only: bool = "
                   "False) -> numpy.typing.NDArray[typing.Any]"),
           "trainable_only"_a = false, kContiguousParameters)
      .def("copy_buffer_to_parameters", &ModuleObject::CopyBuffer, "buffer"_a,
           "trainable_only"_a = true, kCopyBuffer)
      .def("export_model_for_inferencing", &ModuleObject::Export,
           "inference_model_uri"_a, "graph_output_names"_a,
           nb::sig("def export_model_for_inferencing(self, "
                   "inference_model_uri: str | os.PathLike[str], "
                   "graph_output_names: collections.abc.Sequence[str]) -> "
                   "None"),
           kExport)
      .def(
          "write_profile",
          [](const ModuleObject& self, nb::handle path) {
            self.module().WriteProfile(PathOf(path));
          },
          "path"_a,
          nb::sig("def write_profile(self, path: str | os.PathLike[str]) -> "
                  "None"),
          "Writes the times of all kernels so far, in microseconds,\n"
          "as a Chrome trace (JSON). A plain Error without\n"
          "SessionOptions.enable_profiling, OSError where it cannot\n"
          "be written.")
      .def_prop_ro("state", &ModuleObject::state,
                   nb::sig("def state(self) -> CheckpointState"),
                   "The CheckpointState that the module trains.");
}

void BindOptimizer(nb::module_& module) {
  nb::class_<OptimizerObject>(module, "Optimizer", kOptimizer)
      .def(
          "__init__",
          [](OptimizerObject* self, nb::handle uri, nb::object of) {
            if (!IsReady<ModuleObject>(of))
              throw nb::type_error("module: a Module is wanted");
            new (self) OptimizerObject(uri, std::move(of));
          },
          "optimizer_uri"_a, "module"_a,
          nb::sig("def __init__(self, optimizer_uri: object, module: Module) "
                  "-> None"),
          "See the class.")
      .def("step", &OptimizerObject::Step,
           "Updates every trainable parameter once, in place. The\n"
           "gradients stay, scaled down if the model clips them. A\n"
           "plain Error, and no update, while the state is nominal.")
      .def(
          "set_learning_rate",
          [](OptimizerObject& self, float rate) {
            self.optimizer->SetLearningRate(rate);
          },
          "learning_rate"_a,
          "Sets the rate, kept as float32, of the steps that\n"
          "follow; a scheduler's step sets it anew.")
      .def(
          "get_learning_rate",
          [](const OptimizerObject& self) {
            return self.optimizer->GetLearningRate();
          },
          "The rate of the next step, a float. Before anything is\n"
          "set it is 0.001, or that of the run whose optimizer\n"
          "state was loaded.")
      .def_prop_ro(
          "step_count",
          [](const OptimizerObject& self) {
            return self.optimizer->step_count();
          },
          "Updates made so far, an int; those before a saved\n"
          "optimizer state was loaded count too.");
}

void BindScheduler(nb::module_& module) {
  nb::class_<SchedulerObject>(module, "LinearLRScheduler", kScheduler)
      .def(nb::init<nb::object, int64_t, int64_t, float, int64_t>(),
           "optimizer"_a, "warmup_step_count"_a, "total_step_count"_a,
           "initial_lr"_a, "first_step"_a = 0,
           nb::sig("def __init__(self, optimizer: Optimizer, "
                   "warmup_step_count: int, total_step_count: int, "
                   "initial_lr: float, first_step: int = 0) -> None"),
           "See the class.")
      .def(
          "step", [](SchedulerObject& self) { self.scheduler->Step(); },
          "Sets the rate that belongs to the optimizer's step\n"
          "count. To be called after each step of the optimizer;\n"
          "calling it again changes nothing.");
}

}  // namespace

void BindTraining(nb::module_& module) {
  BindModule(module);
  BindOptimizer(module);
  BindScheduler(module);
}

}  // namespace strop::python
