// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of direct_loops.h for plain outputs: a vector holds
// neighbours of a row. Serves few filters, which leave most lanes of a block
// empty. A filter is a block of one. Of the padded image whole vectors are
// read: where rows of outputs are shorter, its rows must be longer by what is
// missing.
#pragma once

#include <cstdint>

#include "providers/cpu/conv/direct_loops.h"

namespace strop {

DirectForwardFunction GetRowForward();

// What this function sums up is GetRowLanes() times as long as the packed
// weights: each gradient is a vector, which FoldRowLanes makes one number.
DirectWeightsFunction GetRowWeights();
int64_t GetRowLanes();
// sums[i] = the sum of the i-th vector of `wide`.
void FoldRowLanes(const float* wide, int64_t count, float* sums);

}  // namespace strop
