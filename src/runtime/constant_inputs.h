// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "strop/tensor.h"

namespace strop {

// Graph inputs whose values are known when plans are made.
class ConstantInputs {
 public:
  // Copies the value.
  void Add(size_t input, const Tensor& value) {
    entries_.push_back({input, OwnedTensor(value)});
  }
  // Null where the input is not among them.
  const Tensor* Find(size_t input) const;

  // The same inputs with the same values.
  friend bool operator==(const ConstantInputs& a, const ConstantInputs& b);

 private:
  struct Entry {
    size_t input;
    OwnedTensor value;
  };
  std::vector<Entry> entries_;
};

}  // namespace strop
