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

// Images and their outputs, which lie x_step and y_step apart.
struct RowImages {
  int64_t count;
  const float* x;
  int64_t x_step;
  float* y;
  int64_t y_step;
};

// As DirectForwardFunction, for several images: a tile takes the same row of
// some of them, so that they share the rows of the kernel that read padding.
using RowForwardFunction = void (*)(const DirectPlan& plan, int64_t first,
                                    int64_t last, const RowImages& images,
                                    const float* w, const float* bias);
RowForwardFunction GetRowForward();

// What this function sums up is GetRowLanes() times as long as the packed
// weights: each gradient is a vector, which FoldRowLanes makes one number.
DirectWeightsFunction GetRowWeights();
int64_t GetRowLanes();
// sums[i] = the sum of the i-th vector of `wide`.
void FoldRowLanes(const float* wide, int64_t count, float* sums);

}  // namespace strop
