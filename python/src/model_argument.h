// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "binding.h"

namespace strop::python {

// A model by path, as bytes, or as an onnx.ModelProto.
class ModelArgument {
 public:
  explicit ModelArgument(nb::handle object) {
    if (nb::hasattr(object, "SerializeToString")) {
      bytes_ = nb::cast<nb::bytes>(object.attr("SerializeToString")());
    } else if (nb::isinstance<nb::bytes>(object)) {
      bytes_ = nb::borrow<nb::bytes>(object);
    } else {
      path_ = PathOf(object);
    }
  }

  // Valid while this lives.
  ModelSource source() const {
    if (!bytes_) return path_;
    return std::span(reinterpret_cast<const std::byte*>(bytes_->data()),
                     bytes_->size());
  }

 private:
  std::filesystem::path path_;
  std::optional<nb::bytes> bytes_;
};

}  // namespace strop::python
