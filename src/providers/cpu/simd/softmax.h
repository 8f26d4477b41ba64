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
  int64_t step = 0;     // from row to row of a and to
};

void RunSoftmaxRows(const SoftmaxRowsArguments& args);

// Rows that are added to scores before a softmax.
struct MaskRows {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t step = 0;  // from row to row
};

// The columns up to the last one that the mask leaves open in a row: behind
// them the softmax is 0, because the mask closes them, as a causal one does.
// All columns if nothing is open in a row.
//
// A mask closes with -1e8 or less: a score that far below the others of its
// row is 0 after the softmax, unless scores are as large themselves.
int64_t CountOpenColumns(const MaskRows& mask);

}  // namespace strop
