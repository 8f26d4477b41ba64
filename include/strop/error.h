// SPDX-License-Identifier: Apache-2.0
//
// The one exception of Strop.
//
// Every failure that a caller can cause or must know about is thrown as a
// strop::Error. Its text is one sentence that names who complains, what was
// wanted and what came:
//
//   [MatMul "fc1"] inner dimensions differ: A is (32, 784), B is (768, 128)
//
// After an Error the object that threw is as it was before the call, unless
// the function's own comment says otherwise.
#pragma once

#include <stdexcept>
#include <string>

#if defined(_WIN32)
#if defined(STROP_BUILDING)
#define STROP_EXPORT __declspec(dllexport)
#elif defined(STROP_STATIC)
#define STROP_EXPORT
#else
#define STROP_EXPORT __declspec(dllimport)
#endif
#else
#define STROP_EXPORT __attribute__((visibility("default")))
#endif

namespace strop {

enum class ErrorCode {
  kInvalidArgument,  // the caller passed something wrong
  kTypeMismatch,     // a tensor is of another element type than is wanted
  kNotFound,         // there is no parameter, value, ... of that name
  kNoSuchFile,       // there is no such file or folder
  kInvalidFile,      // a file is truncated, damaged or of another kind
  kInvalidGraph,     // a model is malformed
  kNotImplemented,   // Strop does not have what the model asks for
  kFailedState,      // the object is not in a state that allows the call
  kIo,               // the operating system refused to read or write
  kOutOfMemory,      // a stated limit or the machine's memory is exceeded
  kNonFinite,        // a loss is infinite or not a number
  kInternal,         // an invariant of Strop is broken: please report it
};

class STROP_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace strop
