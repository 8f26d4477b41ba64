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
  // As Python's own functions take paths: any bytes of a name, but no NUL.
  PyObject* encoded = nullptr;
  if (!PyUnicode_FSConverter(object.ptr(), &encoded)) throw nb::python_error();
  return PathFromText(nb::steal<nb::bytes>(encoded).c_str());
}

}  // namespace strop::python
