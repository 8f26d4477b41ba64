// SPDX-License-Identifier: Apache-2.0
//
// strop::Error becomes the class of strop._errors that its code stands for.
#include "binding.h"

namespace strop::python {
namespace {

const char* ClassOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgumentError";
    case ErrorCode::kTypeMismatch:
      return "TypeMismatchError";
    case ErrorCode::kNotFound:
      return "UnknownNameError";
    case ErrorCode::kNoSuchFile:
      return "MissingFileError";
    case ErrorCode::kInvalidFile:
      return "InvalidFileError";
    case ErrorCode::kInvalidGraph:
      return "InvalidGraphError";
    case ErrorCode::kNotImplemented:
      return "UnsupportedError";
    case ErrorCode::kFailedState:
      return "FailedStateError";
    case ErrorCode::kIo:
      return "IoError";
    case ErrorCode::kOutOfMemory:
      return "OutOfMemoryError";
    case ErrorCode::kNonFinite:
      return "NonFiniteError";
    case ErrorCode::kInternal:
      break;
  }
  return "Error";
}

}  // namespace

void BindErrors(nb::module_&) {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          const nb::object type =
              nb::module_::import_("strop._errors").attr(ClassOf(error.code()));
          PyErr_SetString(type.ptr(), error.what());
        }
      });
}

}  // namespace strop::python
