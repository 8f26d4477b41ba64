// SPDX-License-Identifier: Apache-2.0
#include "strop/function.h"

#include <mutex>

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
      // The core runs one call at a time.
      const nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
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
  std::mutex mutex_;
};

constexpr char kFunction[] =
    R"(A model as a function: its outputs, and gradients of one of them.

Threads may share it: their calls run one after the other.

Args:
    model: a path, bytes, or an onnx.ModelProto. It means what it says:
        Dropout and BatchNormalization are not switched to training.
    wrt: the names of what to differentiate by: inputs, parameters or other
        values, of a float type.
    of: the output that is differentiated, by default the first: the sum of
        its elements.
    outputs: the values to return, by default the model's outputs.
    seeded: with True there is a further, last input, of the type and shape of
        that output: the sum of the products of the two is differentiated.
    session_options: SessionOptions, or None.

Raises:
    Error: FileNotFoundError where there is no file; KeyError for an unknown
        name; ValueError where the model is malformed, a value has no float
        type, or the output does not depend on it; NotImplementedError naming
        the nodes that Strop does not have or that have no gradient.

>>> function = strop.Function("model.onnx", wrt=["input", "fc2.bias"])
>>> outputs, gradients = function(x)
>>> outputs["output"].shape, gradients["input"].shape
((8, 3), (8, 6))
>>> gradients["fc2.bias"].tolist()
[8.0, 8.0, 8.0])";

constexpr char kFunctionCall[] = R"(The outputs and gradients for these inputs.

Args:
    inputs: arrays in the order of input_names(), of exactly the model's
        element types; see Module.

Returns:
    ({name: output}, {name: gradient}), new NumPy arrays. A gradient has the
    type and shape of its value.

Raises:
    Error: TypeError for another element type or no array, ValueError for
        another shape or count.)";

}  // namespace

void BindFunction(nb::module_& module) {
  nb::class_<FunctionObject>(module, "Function", kFunction)
      .def(nb::init<nb::handle, std::vector<std::string>, std::string,
                    std::vector<std::string>, bool, nb::handle>(),
           "model"_a, "wrt"_a = std::vector<std::string>{}, "of"_a = "",
           "outputs"_a = std::vector<std::string>{}, "seeded"_a = false,
           "session_options"_a = nb::none(), "See the class.")
      .def("__call__", &FunctionObject::Call,
           nb::sig("def __call__(self, *inputs: object) -> "
                   "tuple[dict[str, numpy.typing.NDArray[typing.Any]], "
                   "dict[str, numpy.typing.NDArray[typing.Any]]]"),
           kFunctionCall)
      .def("input_names", &FunctionObject::InputNames,
           "The names of what a call takes, in order; a seed is the\n"
           "last, called <output>_seed.")
      .def("output_names", &FunctionObject::OutputNames,
           "The names of the outputs that a call returns, in order.");
}

}  // namespace strop::python
