// SPDX-License-Identifier: Apache-2.0
//
// Parameters as one flat float32 buffer, in the order of the training graph's
// inputs: what devices send to each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/parameter_store.h"

namespace strop {

// A parameter of the training graph, in the order of its inputs.
struct ParameterSlot {
  std::string name;
  bool requires_grad = false;
  // As the graph declares it; type kUndefined where it does not say.
  TensorInfo declared;
};

// Elements of the parameters, frozen ones too unless `trainable_only`.
int64_t ParametersSize(std::span<const ParameterSlot> slots,
                       ParameterStore& store, bool trainable_only);

// Copies the parameters into `buffer` of ParametersSize elements.
void CopyToBuffer(std::span<const ParameterSlot> slots, ParameterStore& store,
                  const Tensor& buffer, bool trainable_only);

// The inverse. A nominal store gets its values; `trainable_only` must then be
// false.
void CopyFromBuffer(std::span<const ParameterSlot> slots, ParameterStore& store,
                    const Tensor& buffer, bool trainable_only);

}  // namespace strop
