// SPDX-License-Identifier: Apache-2.0
#include "base/path_text.h"
#include "binding.h"

NB_MODULE(_core, module) {
  module.doc() = "Strop's core; import the package strop instead.";
  module.attr("version") = STROP_VERSION;
  using namespace strop::python;
  BindErrors(module);
  BindSessionOptions(module);
  BindState(module);
  BindTraining(module);
  BindArtifactOptions(module);
  BindArtifacts(module);
  BindBlocks(module);
  BindFunction(module);
  BindProgram(module);
}

namespace strop::python {

const Environment& ProcessEnvironment() {
  // Never destroyed: objects of Python may outlive static ones.
  static const Environment* environment = new Environment();
  return *environment;
}

std::filesystem::path PathOf(nb::handle object) {
  PyObject* path = PyOS_FSPath(object.ptr());
  if (path == nullptr) throw nb::python_error();
  const nb::object owner = nb::steal(path);
  if (nb::isinstance<nb::bytes>(owner))
    return PathFromText(nb::borrow<nb::bytes>(owner).c_str());
  return PathFromText(nb::cast<std::string>(owner));
}

}  // namespace strop::python
