// SPDX-License-Identifier: Apache-2.0
//
// Rows of the softmax family, for kernels that have them at hand.
#pragma once

#include <cstdint>

#include "providers/cpu/simd/operations.h"

namespace strop {

struct SoftmaxRowsArguments {
  SoftmaxOperation operation = SoftmaxOperation::kSoftmax;
  int64_t rows = 0;
  int64_t columns = 0;
  const float* a = nullptr;  // x, or dy for a gradient
  // y for a gradient; else null, or what is added to x.
  const float* b = nullptr;
  int64_t b_step = 0;   // from row to row of b
  float* to = nullptr;  // may be a
};

void RunSoftmaxRows(const SoftmaxRowsArguments& args);

}  // namespace strop
