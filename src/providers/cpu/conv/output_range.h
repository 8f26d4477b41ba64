// SPDX-License-Identifier: Apache-2.0
//
// The outputs of a direct convolution cut into ranges for which what is read
// stays in the first level cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/round.h"
#include "providers/cpu/conv/direct_loops.h"

namespace strop {

// Rows [h_first, h_last) of the outputs, and of each one part of `parts`.
struct OutputRange {
  int64_t h_first, h_last;
  int64_t part, parts;

  // Where of `count` equal units of a row the part begins and ends.
  int64_t Begin(int64_t count) const { return count * part / parts; }
  int64_t End(int64_t count) const { return count * (part + 1) / parts; }
};

// Calls body(range) for ranges of about `positions` outputs.
template <class F>
void ForEachRange(const DirectPlan& plan, int64_t positions, F&& body) {
  const int64_t rows = std::max<int64_t>(1, positions / plan.output_w);
  const int64_t parts = CeilDiv(plan.output_w, positions);
  for (int64_t h = 0; h < plan.output_h; h += rows) {
    for (int64_t part = 0; part < parts; ++part) {
      body(OutputRange{h, std::min(h + rows, plan.output_h), part, parts});
    }
  }
}

}  // namespace strop
