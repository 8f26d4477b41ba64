// SPDX-License-Identifier: Apache-2.0
//
// What Python's objects hold. `owner` is the CheckpointState's object, which
// they keep alive.
#pragma once

#include <string>

#include "binding.h"

namespace strop::python {

struct Parameter {
  nb::object owner;
  std::string name;

  CheckpointState& state() const {
    return *nb::inst_ptr<CheckpointState>(owner);
  }
  Tensor value() const { return state().ParameterValue(name); }
  bool requires_grad() const { return state().RequiresGrad(name); }
};

struct Parameters {
  static constexpr const char* kName = "Parameters";
  nb::object owner;

  CheckpointState& state() const {
    return *nb::inst_ptr<CheckpointState>(owner);
  }
  std::vector<std::string> names() const { return state().ParameterNames(); }
  bool has(const std::string& name) const { return state().HasParameter(name); }
  Parameter at(const std::string& name) const {
    Parameter parameter{owner, name};
    parameter.value();  // throws where it is unknown, or the state nominal
    return parameter;
  }
};

struct Properties {
  static constexpr const char* kName = "Properties";
  nb::object owner;

  CheckpointState& state() const {
    return *nb::inst_ptr<CheckpointState>(owner);
  }
  std::vector<std::string> names() const { return state().PropertyNames(); }
  bool has(const std::string& name) const { return state().HasProperty(name); }
  Property at(const std::string& name) const {
    return state().GetProperty(name);
  }
};

Property PropertyOf(nb::handle value);

// (name, element type, dims, bytes).
nb::tuple TensorOf(const std::string& name, const Tensor& value);

// None, SessionOptions, or an object with ONNX Runtime's attributes.
SessionOptions SessionOptionsOf(nb::handle object);

}  // namespace strop::python
