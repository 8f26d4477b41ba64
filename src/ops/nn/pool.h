// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/window.h"

namespace strop::ops {

// Cells that the average of output position `index` divides by: those of the
// window inside the input, or with include_pad inside the padded input.
int64_t AverageCount(const Window& window, int64_t index, bool include_pad);

}  // namespace strop::ops
