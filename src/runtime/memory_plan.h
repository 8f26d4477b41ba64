// SPDX-License-Identifier: Apache-2.0
//
// Where in one arena each buffer of a plan lies.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace strop {

// A buffer that must keep its bytes from step `first` to step `last`, both
// included.
struct BufferLife {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // multiples of 64
  size_t total_bytes = 0;
};

// Buffers whose lives overlap do not overlap in memory. Buffers are placed one
// after another, each in the smallest gap that fits, else at the end; large
// ones first ("greedy by size", as in Pisarchyk and Lee, "Efficient memory
// management for deep neural net inference", 2020), or those first that are
// large for long, whichever needs less.
MemoryPlan PlanMemory(std::span<const BufferLife> buffers);

}  // namespace strop
