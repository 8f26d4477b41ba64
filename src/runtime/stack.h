// SPDX-License-Identifier: Apache-2.0
//
// One tensor of many along a new axis, and back: what Loop and Scan do.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/step_budget.h"
#include "strop/tensor.h"

namespace strop {

// The tensor without `axis`, at position `index` of it.
HeldTensor SliceOf(StepBudget& budget, const Tensor& x, size_t axis,
                   int64_t index);

// The pieces, all of one type and shape, along a new axis. Throws where they
// differ; `name` is the value's.
HeldTensor Stack(StepBudget& budget, std::span<const HeldTensor> pieces,
                 size_t axis, const std::string& name);

}  // namespace strop
