// SPDX-License-Identifier: Apache-2.0
#include "runtime/constant_inputs.h"

#include <algorithm>

namespace strop {

const Tensor* ConstantInputs::Find(size_t input) const {
  for (const Entry& entry : entries_) {
    if (entry.input == input) return &entry.value.view();
  }
  return nullptr;
}

bool operator==(const ConstantInputs& a, const ConstantInputs& b) {
  return std::ranges::equal(
      a.entries_, b.entries_, [](const auto& x, const auto& y) {
        return x.input == y.input && x.value.type() == y.value.type() &&
               x.value.shape() == y.value.shape() &&
               std::ranges::equal(x.value.view().bytes(),
                                  y.value.view().bytes());
      });
}

}  // namespace strop
