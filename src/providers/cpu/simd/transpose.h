// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace strop {

// y[j][i] = x[i][j] for `rows` rows of x and `columns` columns, bit by bit, on
// the calling thread.
void TransposeMatrix(const float* x, int64_t x_stride, int64_t rows,
                     int64_t columns, float* y, int64_t y_stride);

}  // namespace strop
