// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// db[m] = sum of dy[n][m][o] over images n and positions o; with
// `overwrite` off the sum is added to what db holds. A channel (in blocked
// layouts a block of them) is summed by one thread, image after image.
void BiasGradient(const KernelContext& context, const Shape& dy_shape,
                  Layout layout, const float* dy, bool overwrite, float* db);

// sums[m] += sum of dy[n][m][o] over images n in [first, last) and positions o.
// There is a sum for each channel that pads the last block too.
void AddBiasSums(const Shape& dy_shape, Layout layout, const float* dy,
                 int64_t first, int64_t last, double* sums);

}  // namespace strop
