// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// db[m] = sum of dy[n][m][o] over images n and positions o; with
// `overwrite` off the sum is added to what db holds. A channel (in blocked
// layouts a block of them) is summed by one thread, image after image.
void BiasGradient(const KernelContext& context, const Shape& dy_shape,
                  Layout layout, const float* dy, bool overwrite, float* db);

}  // namespace strop
