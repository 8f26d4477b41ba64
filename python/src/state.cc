// SPDX-License-Identifier: Apache-2.0
//
// CheckpointState with its two mappings, and Parameter.
#include <nanobind/stl/variant.h>

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

void BindParameter(nb::module_& module) {
  nb::class_<Parameter>(module, "Parameter",
                        "One named tensor of a checkpoint state.")
      .def_prop_ro("name", [](const Parameter& p) { return p.name; })
      .def_prop_ro("requires_grad", &Parameter::requires_grad,
                   "Whether training changes it.")
      .def_prop_rw(
          "data", [](const Parameter& p) { return CopyToNumpy(p.value()); },
          &SetData, nb::for_getter(nb::sig("def data(self) -> numpy.ndarray")),
          nb::for_setter(nb::sig("def data(self, value: object, /) -> None")),
          "A copy of the value as a NumPy array; assigning copies an array of "
          "the same type and shape into it.")
      .def_prop_ro("grad", &Gradient,
                   nb::sig("def grad(self) -> numpy.ndarray | None"),
                   "A copy of the gradient; None for a frozen parameter, or "
                   "before a Module was made.")
      .def(
          "view",
          [](const Parameter& p) { return ViewAsNumpy(p.value(), p.owner); },
          nb::sig("def view(self) -> numpy.ndarray"),
          "The value itself, in place: writing to the array is seen by the "
          "next step.")
      .def("grad_view", &GradientView,
           nb::sig("def grad_view(self) -> numpy.ndarray | None"),
           "The gradient itself, in place, or None; see grad.")
      .def("__repr__", &Repr);
}

void BindParameters(nb::module_& module) {
  nb::class_<Parameters>(module, "Parameters",
                         "The parameters of a state by name, in the order of "
                         "their names.")
      .def("__getitem__", &Parameters::at)
      .def("__setitem__",
           [](const Parameters& p, const std::string& name, nb::handle value) {
             SetData(Parameter{p.owner, name}, value);
           })
      .def("__contains__", &Contains<Parameters>)
      .def("__len__", [](const Parameters& p) { return p.names().size(); })
      .def("keys", &NamesOf<Parameters>)
      .def("values", &ValuesOf<Parameters>,
           nb::sig("def values(self) -> list[Parameter]"))
      .def("items", &ItemsOf<Parameters>,
           nb::sig("def items(self) -> list[tuple[str, Parameter]]"))
      .def("get", &ValueOr<Parameters>, "key"_a, "default"_a = nb::none(),
           nb::sig("def get(self, key: object, default: typing.Any = None) "
                   "-> typing.Any"))
      .def("__iter__", &IteratorOf<Parameters>,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__repr__", &ReprOf<Parameters>);
}

void BindProperties(nb::module_& module) {
  nb::class_<Properties>(module, "Properties",
                         "Numbers and strings that a state carries, by name.")
      .def("__getitem__", &Properties::at)
      .def("__setitem__",
           [](const Properties& p, const std::string& name, nb::handle value) {
             p.state().SetProperty(name, PropertyOf(value));
           })
      .def("__contains__", &Contains<Properties>)
      .def("__len__", [](const Properties& p) { return p.names().size(); })
      .def("keys", &NamesOf<Properties>)
      .def("values", &ValuesOf<Properties>,
           nb::sig("def values(self) -> list[int | float | str]"))
      .def("items", &ItemsOf<Properties>,
           nb::sig("def items(self) -> list[tuple[str, int | float | str]]"))
      .def("get", &ValueOr<Properties>, "key"_a, "default"_a = nb::none(),
           nb::sig("def get(self, key: object, default: typing.Any = None) "
                   "-> typing.Any"))
      .def("__iter__", &IteratorOf<Properties>,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__repr__", &ReprOf<Properties>);
}

}  // namespace

Property PropertyOf(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (PyFloat_Check(value.ptr()))
    return static_cast<float>(nb::cast<double>(value));
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
  nb::class_<CheckpointState>(
      module, "CheckpointState",
      "Parameters, optimizer state and properties of a training run.\n\n"
      "Made by load_checkpoint. Module and Optimizer share it: an update "
      "through one is seen by all.")
      .def_static(
          "load_checkpoint",
          [](nb::handle path) {
            return CheckpointState::Load(PathOf(path), ProcessEnvironment());
          },
          "checkpoint_uri"_a, "Reads a checkpoint file, complete or nominal.")
      .def_static(
          "load_from_bytes",
          [](nb::bytes bytes) {
            return CheckpointState::LoadFromBuffer(
                {reinterpret_cast<const std::byte*>(bytes.data()),
                 bytes.size()},
                ProcessEnvironment());
          },
          "data"_a, "The same from the bytes of a file.")
      .def_static(
          "save_checkpoint",
          [](const CheckpointState& state, nb::handle path, bool optimizer) {
            state.Save(PathOf(path), optimizer);
          },
          "state"_a, "checkpoint_uri"_a, "include_optimizer_state"_a = false,
          "Writes the state to a file, whole or not at all. ONNX Runtime 1.18 "
          "and newer read it.")
      .def_prop_ro("is_nominal", &CheckpointState::is_nominal,
                   "True while the state has names but no values.")
      .def_prop_ro("parameters",
                   [](nb::handle self) { return Parameters{nb::borrow(self)}; })
      .def_prop_ro("properties", [](nb::handle self) {
        return Properties{nb::borrow(self)};
      });
}

}  // namespace strop::python
