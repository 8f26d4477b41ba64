// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strop/tensor.h"

namespace strop {

// False if an element is infinite or not a number; true for types that have
// no such values.
bool IsFinite(const Tensor& tensor);

}  // namespace strop
