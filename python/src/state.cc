// SPDX-License-Identifier: Apache-2.0
//
// CheckpointState with its two mappings, and Parameter.
#include <nanobind/stl/variant.h>

#include <cmath>

#include "objects.h"

namespace strop::python {
namespace {

using namespace nb::literals;

std::string Repr(const Parameter& parameter) {
  return "Parameter(name=" + parameter.name +
         ", requires_grad=" + (parameter.requires_grad() ? "True" : "False") +
         ")";
}

nb::object Gradient(const Parameter& parameter) {
  const auto gradient = parameter.state().Gradient(parameter.name);
  return gradient ? CopyToNumpy(*gradient) : nb::none();
}

nb::object GradientView(const Parameter& parameter) {
  const auto gradient = parameter.state().Gradient(parameter.name);
  return gradient ? ViewAsNumpy(*gradient, parameter.owner) : nb::none();
}

void SetData(const Parameter& parameter, nb::handle value) {
  const ArrayIn array(value, parameter.name);
  parameter.state().UpdateParameter(parameter.name, array.tensor());
}

// --- What makes a mapping of Parameters and Properties

template <class Items>
std::vector<std::string> NamesOf(const Items& items) {
  return items.names();
}

template <class Items>
bool Contains(const Items& items, nb::handle name) {
  return nb::isinstance<nb::str>(name) &&
         items.has(nb::cast<std::string>(name));
}

template <class Items>
nb::list ValuesOf(const Items& items) {
  nb::list values;
  for (const std::string& name : items.names())
    values.append(nb::cast(items.at(name)));
  return values;
}

template <class Items>
nb::list ItemsOf(const Items& items) {
  nb::list pairs;
  for (const std::string& name : items.names())
    pairs.append(nb::make_tuple(name, items.at(name)));
  return pairs;
}

template <class Items>
nb::object ValueOr(const Items& items, nb::handle name, nb::handle otherwise) {
  if (!Contains(items, name)) return nb::borrow(otherwise);
  return nb::cast(items.at(nb::cast<std::string>(name)));
}

template <class Items>
nb::object IteratorOf(const Items& items) {
  return nb::iter(nb::cast(items.names()));
}

// The names alone: values may be large, or not there yet.
template <class Items>
std::string ReprOf(const Items& items) {
  return Items::kName + std::string("(") +
         nb::repr(nb::cast(items.names())).c_str() + ")";
}

// --- Docstrings

constexpr char kParameter[] = R"(One named tensor of a checkpoint state.

Made by a state: `state.parameters[name]`. It keeps the state alive.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> bias = state.parameters["fc2.bias"]
>>> bias
Parameter(name=fc2.bias, requires_grad=True)
>>> bias.data = np.array([1, 2, 3], np.float32)
>>> bias.view()[0] = 7
>>> bias.data.tolist()
[7.0, 2.0, 3.0])";

constexpr char kParameterData[] = R"(A copy of the value: a new NumPy array.

It has the parameter's shape and element type; bfloat16 comes as the type of
ml_dtypes, or without that package as uint16. Assigning copies an array of
exactly that type and shape into the parameter; the next step sees it.

Raises:
    Error: TypeError for another element type or no array, ValueError for
        another shape; a plain Error on a nominal state.)";

constexpr char kParameterGrad[] = R"(A copy of the gradient, or None.

A new NumPy array of the parameter's shape and element type: what the train
steps since the last reset have added up, zeros before the first. None for a
frozen parameter, and until a Module was made on the state.)";

constexpr char kParameterView[] = R"(The value itself, in place.

A NumPy array of the parameter's shape and type over the state's memory:
steps change what it shows, and the next step sees what is written to it. It
keeps the state alive. A plain Error is raised on a nominal state.)";

constexpr char kParameterGradView[] = R"(The gradient itself, in place, or None.

A NumPy array over the state's memory, see `grad`: steps change what it shows,
and the next optimizer step uses what is written to it.)";

constexpr char kParameters[] =
    R"(The parameters of a state, a mapping from name to Parameter.

Names are sorted. There are always the same ones; assigning to a name copies
an array into its parameter. `in`, len and names work on a nominal state too.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> list(state.parameters)
['fc1.bias', 'fc1.weight', 'fc2.bias', 'fc2.weight']
>>> state.parameters["fc2.bias"] = np.zeros(3, np.float32)
>>> {name: p.data.shape for name, p in state.parameters.items()}["fc2.weight"]
(3, 12))";

constexpr char kProperties[] =
    R"(Numbers and strings that a state carries, a mapping by name.

Values are int (64 bits), float (kept as float32) and str. Names are sorted;
those that begin with "strop." are Strop's own and are not listed.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> state.properties["epoch"] = 3
>>> state.properties["note"] = "fine"
>>> dict(state.properties)
{'epoch': 3, 'note': 'fine'})";

constexpr char kCheckpointState[] =
    R"(Parameters, optimizer state and properties of a training run.

Made by load_checkpoint or load_from_bytes. Module and Optimizer share it: an
update through one is seen by all. One step or access at a time.

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> state.parameters["fc1.weight"].data.shape
(12, 6)
>>> state.properties["epoch"] = 1
>>> strop.CheckpointState.save_checkpoint(state, "saved_checkpoint")
>>> again = strop.CheckpointState.load_checkpoint("saved_checkpoint")
>>> again.properties["epoch"]
1)";

constexpr char kLoadCheckpoint[] = R"(Reads a checkpoint file.

Strop's and ONNX Runtime's, with values or nominal; tensors that it keeps
outside are read from `<file>.data`.

Raises:
    Error: FileNotFoundError where there is no file, ValueError where it is
        damaged or of another kind, OSError where it cannot be read.)";

constexpr char kLoadFromBytes[] =
    R"(The state that a checkpoint file's bytes hold.

Raises:
    Error: ValueError where they are damaged or of another kind, or name
        tensors in another file.)";

constexpr char kSaveCheckpoint[] =
    R"(Writes the state to a file, whole or not at all.

ONNX Runtime 1.18 and newer read it. A state above 2 GB, or that was read from
two files, goes to `<file>` and `<file>.data`.

Args:
    state: the state.
    checkpoint_uri: the file, which is overwritten.
    include_optimizer_state: also write moments, step count and learning rate,
        which a run that goes on needs. Without, it begins anew from the
        parameters.

Raises:
    Error: OSError where it cannot be written; the old file is then whole.)";

// --- Bindings

void BindParameter(nb::module_& module) {
  nb::class_<Parameter>(module, "Parameter", kParameter)
      .def_prop_ro(
          "name", [](const Parameter& p) { return p.name; },
          "The name, a str, as in the model's graph.")
      .def_prop_ro("requires_grad", &Parameter::requires_grad,
                   "Whether training changes it: a bool, fixed when the "
                   "artifacts were made.")
      .def_prop_rw(
          "data", [](const Parameter& p) { return CopyToNumpy(p.value()); },
          &SetData,
          nb::for_getter(
              nb::sig("def data(self) -> numpy.typing.NDArray[typing.Any]")),
          nb::for_setter(nb::sig("def data(self, value: object, /) -> None")),
          kParameterData)
      .def_prop_ro(
          "grad", &Gradient,
          nb::sig("def grad(self) -> numpy.typing.NDArray[typing.Any] | None"),
          kParameterGrad)
      .def(
          "view",
          [](const Parameter& p) { return ViewAsNumpy(p.value(), p.owner); },
          nb::sig("def view(self) -> numpy.typing.NDArray[typing.Any]"),
          kParameterView)
      .def(
          "grad_view", &GradientView,
          nb::sig(
              "def grad_view(self) -> numpy.typing.NDArray[typing.Any] | None"),
          kParameterGradView)
      .def("__repr__", &Repr);
}

void BindParameters(nb::module_& module) {
  nb::class_<Parameters>(module, "Parameters", kParameters)
      .def("__getitem__", &Parameters::at,
           nb::sig("def __getitem__(self, name: str, /) -> Parameter"),
           "The parameter of that name; KeyError if there is none,\n"
           "Error on a nominal state.")
      .def(
          "__setitem__",
          [](const Parameters& p, const std::string& name, nb::handle value) {
            SetData(Parameter{p.owner, name}, value);
          },
          nb::sig("def __setitem__(self, name: str, value: object, /) -> None"),
          "Copies an array into the parameter, as Parameter.data\n"
          "does. Never adds one: KeyError for an unknown name.")
      .def("__contains__", &Contains<Parameters>,
           nb::sig("def __contains__(self, name: object, /) -> bool"),
           "Whether there is a parameter of that name.")
      .def(
          "__len__", [](const Parameters& p) { return p.names().size(); },
          "The number of parameters.")
      .def("keys", &NamesOf<Parameters>, "The names, sorted.")
      .def("values", &ValuesOf<Parameters>,
           nb::sig("def values(self) -> list[Parameter]"),
           "The parameters in the order of their names; Error on a nominal "
           "state.")
      .def("items", &ItemsOf<Parameters>,
           nb::sig("def items(self) -> list[tuple[str, Parameter]]"),
           "(name, parameter) in the order of the names; Error on a nominal "
           "state.")
      .def("get", &ValueOr<Parameters>, "key"_a, "default"_a = nb::none(),
           nb::sig("def get(self, key: object, default: typing.Any = None) "
                   "-> typing.Any"),
           "The parameter of that name, or `default` if there is none.")
      .def("__iter__", &IteratorOf<Parameters>,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"),
           "Iterates over the names, sorted.")
      .def("__repr__", &ReprOf<Parameters>);
}

void BindProperties(nb::module_& module) {
  nb::class_<Properties>(module, "Properties", kProperties)
      .def("__getitem__", &Properties::at,
           nb::sig("def __getitem__(self, name: str, /) -> int | float | str"),
           "The value of that name; KeyError if there is none.")
      .def(
          "__setitem__",
          [](const Properties& p, const std::string& name, nb::handle value) {
            p.state().SetProperty(name, PropertyOf(value));
          },
          nb::sig("def __setitem__(self, name: str, value: int | float | str | "
                  "typing.SupportsIndex, /) -> None"),
          "Adds or overwrites, also with a value of another type.\n"
          "TypeError for what is no int, float or str; ValueError\n"
          "for an int beyond 64 bits or a float beyond 32.")
      .def("__contains__", &Contains<Properties>,
           nb::sig("def __contains__(self, name: object, /) -> bool"),
           "Whether there is a property of that name.")
      .def(
          "__len__", [](const Properties& p) { return p.names().size(); },
          "The number of properties.")
      .def("keys", &NamesOf<Properties>, "The names, sorted.")
      .def("values", &ValuesOf<Properties>,
           nb::sig("def values(self) -> list[int | float | str]"),
           "The values in the order of their names.")
      .def("items", &ItemsOf<Properties>,
           nb::sig("def items(self) -> list[tuple[str, int | float | str]]"),
           "(name, value) in the order of the names.")
      .def("get", &ValueOr<Properties>, "key"_a, "default"_a = nb::none(),
           nb::sig("def get(self, key: object, default: typing.Any = None) "
                   "-> typing.Any"),
           "The value of that name, or `default` if there is none.")
      .def("__iter__", &IteratorOf<Properties>,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"),
           "Iterates over the names, sorted.")
      .def("__repr__", &ReprOf<Properties>);
}

}  // namespace

Property PropertyOf(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text == nullptr) throw nb::python_error();  // half a surrogate pair
    return std::string(text, static_cast<size_t>(size));
  }
  if (PyFloat_Check(value.ptr())) {
    const auto number = nb::cast<double>(value);
    const auto kept = static_cast<float>(number);
    if (std::isfinite(kept) || !std::isfinite(number)) return kept;
    throw Error(ErrorCode::kInvalidArgument,
                std::string("a property is a float of 32 bits, got ") +
                    nb::str(value).c_str());
  }
  if (PyIndex_Check(value.ptr())) {
    const nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
    if (!integer.is_valid()) throw nb::python_error();
    int overflow = 0;
    const int64_t number =
        PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
    if (overflow == 0) return number;
    throw Error(ErrorCode::kInvalidArgument,
                std::string("a property is an int of 64 bits, got ") +
                    nb::str(integer).c_str());
  }
  throw nb::type_error("a property is an int, a float or a str");
}

void BindState(nb::module_& module) {
  BindParameter(module);
  BindParameters(module);
  BindProperties(module);
  nb::class_<CheckpointState>(module, "CheckpointState", kCheckpointState)
      .def_static(
          "load_checkpoint",
          [](nb::handle path) {
            return CheckpointState::Load(PathOf(path), ProcessEnvironment());
          },
          "checkpoint_uri"_a,
          nb::sig("def load_checkpoint(checkpoint_uri: str | os.PathLike[str]) "
                  "-> CheckpointState"),
          kLoadCheckpoint)
      .def_static(
          "load_from_bytes",
          [](nb::bytes bytes) {
            return CheckpointState::LoadFromBuffer(
                {reinterpret_cast<const std::byte*>(bytes.data()),
                 bytes.size()},
                ProcessEnvironment());
          },
          "data"_a, kLoadFromBytes)
      .def_static(
          "save_checkpoint",
          [](const CheckpointState& state, nb::handle path, bool optimizer) {
            state.Save(PathOf(path), optimizer);
          },
          "state"_a, "checkpoint_uri"_a, "include_optimizer_state"_a = false,
          nb::sig("def save_checkpoint(state: CheckpointState, checkpoint_uri: "
                  "str | os.PathLike[str], include_optimizer_state: bool = "
                  "False) -> None"),
          kSaveCheckpoint)
      .def_prop_ro("is_nominal", &CheckpointState::is_nominal,
                   "True while the parameters have names but no values;\n"
                   "Module.copy_buffer_to_parameters gives them.")
      .def_prop_ro(
          "parameters",
          [](nb::pointer_and_handle<CheckpointState> self) {
            return Parameters{nb::borrow(self.h)};
          },
          "The parameters, a mapping from name to Parameter.")
      .def_prop_ro(
          "properties",
          [](nb::pointer_and_handle<CheckpointState> self) {
            return Properties{nb::borrow(self.h)};
          },
          "What else the checkpoint holds, a mapping from name to int, float "
          "or str.");
}

}  // namespace strop::python
