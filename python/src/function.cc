// SPDX-License-Identifier: Apache-2.0
#include "strop/function.h"

#include "model_argument.h"
#include "objects.h"

namespace strop::python {
namespace {

using namespace nb::literals;

class FunctionObject {
 public:
  FunctionObject(nb::handle model, std::vector<std::string> wrt, std::string of,
                 std::vector<std::string> outputs, bool seeded,
                 nb::handle options)
      : wrt_(wrt) {
    const ModelArgument argument(model);
    const SessionOptions session = SessionOptionsOf(options);
    const nb::gil_scoped_release release;
    function_ = std::make_unique<Function>(
        argument.source(),
        FunctionOptions{.outputs = std::move(outputs),
                        .wrt = std::move(wrt),
                        .of = std::move(of),
                        .seeded = seeded},
        session, ProcessEnvironment());
  }

  // ({name: output}, {name: gradient})
  nb::tuple Call(const nb::args& inputs) {
    const ArraysIn arrays(inputs, function_->InputNames());
    std::vector<OwnedTensor> outputs, gradients;
    {
      const nb::gil_scoped_release release;
      function_->Run(arrays.tensors(), &outputs, &gradients);
    }
    return nb::make_tuple(ByName(function_->OutputNames(), outputs),
                          ByName(wrt_, gradients));
  }

  const std::vector<std::string>& InputNames() const {
    return function_->InputNames();
  }
  const std::vector<std::string>& OutputNames() const {
    return function_->OutputNames();
  }

 private:
  static nb::dict ByName(const std::vector<std::string>& names,
                         std::vector<OwnedTensor>& tensors) {
    nb::dict arrays;
    for (size_t i = 0; i < tensors.size(); ++i)
      arrays[nb::cast(names[i])] = ToNumpy(std::move(tensors[i]));
    return arrays;
  }

  std::vector<std::string> wrt_;
  std::unique_ptr<Function> function_;
};

}  // namespace

void BindFunction(nb::module_& module) {
  nb::class_<FunctionObject>(
      module, "Function",
      "A model as a function: its outputs, and gradients of one of them.\n\n"
      "    function = Function(\"model.onnx\", wrt=[\"image\"])\n"
      "    outputs, gradients = function(images)\n\n"
      "wrt names inputs, parameters or other values of a float type; of is "
      "the output that is differentiated (default: the first): the sum of its "
      "elements, or with seeded=True the sum of their products with a last "
      "input. outputs names the values to return (default: the model's "
      "outputs).")
      .def(nb::init<nb::handle, std::vector<std::string>, std::string,
                    std::vector<std::string>, bool, nb::handle>(),
           "model"_a, "wrt"_a = std::vector<std::string>{}, "of"_a = "",
           "outputs"_a = std::vector<std::string>{}, "seeded"_a = false,
           "session_options"_a = nb::none())
      .def("__call__", &FunctionObject::Call,
           nb::sig("def __call__(self, *inputs: object) -> "
                   "tuple[dict[str, numpy.ndarray], dict[str, numpy.ndarray]]"),
           "({name: output}, {name: gradient}) as NumPy arrays.")
      .def("input_names", &FunctionObject::InputNames)
      .def("output_names", &FunctionObject::OutputNames);
}

}  // namespace strop::python
