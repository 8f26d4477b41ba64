// SPDX-License-Identifier: Apache-2.0
#include "../../tools/strop/program.h"

#include "binding.h"

namespace strop::python {

void BindProgram(nb::module_& module) {
  module.def(
      "run_program",
      [](std::vector<std::string> arguments) {
        std::vector<char*> pointers;
        for (std::string& argument : arguments)
          pointers.push_back(argument.data());
        const int count = static_cast<int>(pointers.size());
        pointers.push_back(nullptr);
        const nb::gil_scoped_release release;
        return RunProgram(count, pointers.data());
      },
      nb::arg("arguments"),
      "Runs the strop program; arguments[0] is its name. Returns the exit "
      "code.");
}

}  // namespace strop::python
