// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace strop {

// y = min(max(x, low), high), on the calling thread; a NaN stays one.
void ClipValues(const float* x, float low, float high, float* y, int64_t n);

}  // namespace strop
