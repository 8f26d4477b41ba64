// SPDX-License-Identifier: Apache-2.0
//
// The Python extension strop._core: what its files share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "strop/strop.h"

namespace strop::python {

namespace nb = nanobind;

// Each adds its classes and functions to the module.
void BindErrors(nb::module_& module);
void BindState(nb::module_& module);
void BindSessionOptions(nb::module_& module);
void BindTraining(nb::module_& module);
void BindArtifactOptions(nb::module_& module);
void BindArtifacts(nb::module_& module);
void BindBlocks(nb::module_& module);
void BindFunction(nb::module_& module);
void BindProgram(nb::module_& module);

// The one environment of the process, made when it is first needed.
const Environment& ProcessEnvironment();

// A str or os.PathLike as a path; throws TypeError for another object.
std::filesystem::path PathOf(nb::handle object);

// --- Arrays

// What Python passed as an array, ready to be read: a view of its memory
// where that is contiguous and in this machine's byte order, else of a copy.
class ArrayIn {
 public:
  // `name` is for errors. Throws TypeError for what is no array.
  ArrayIn(nb::handle object, const std::string& name);
  ArrayIn(ArrayIn&& other) noexcept;
  ~ArrayIn();

  const Tensor& tensor() const { return tensor_; }

 private:
  bool ReadBuffer(nb::handle object);
  bool ReadDlpack(nb::handle object);

  Py_buffer buffer_ = {};  // without an object: the memory is array_'s
  nb::ndarray<nb::ro> array_;
  Tensor tensor_;
};

// All inputs of a step; `names` are for errors.
class ArraysIn {
 public:
  ArraysIn(const nb::args& objects, const std::vector<std::string>& names);
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<ArrayIn> arrays_;
  std::vector<Tensor> tensors_;
};

// A NumPy array that takes over the tensor's memory.
nb::object ToNumpy(OwnedTensor tensor);
// A NumPy array that owns a copy.
nb::object CopyToNumpy(const Tensor& tensor);
// A NumPy array over memory that `owner` keeps alive.
nb::object ViewAsNumpy(const Tensor& tensor, nb::handle owner);
// The memory of a caller's array to write into; throws where it is not
// contiguous, writable and in this machine's byte order.
Tensor TensorToFill(nb::handle array, const std::string& name);

}  // namespace strop::python
