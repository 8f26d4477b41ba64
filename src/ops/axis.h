// SPDX-License-Identifier: Apache-2.0
//
// A tensor cut along one of its axes.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// The tensor as (outer, size, inner): lines of `size` elements that stand
// `inner` apart.
struct AxisSizes {
  int64_t outer = 1, size = 0, inner = 1;

  int64_t lines() const { return outer * inner; }
  // Where the first element of a line stands.
  int64_t Start(int64_t line) const {
    return line / inner * size * inner + line % inner;
  }
};

inline AxisSizes SizesAlong(const Shape& x, size_t axis) {
  return {x.element_count(0, axis), x[axis],
          x.element_count(axis + 1, x.rank())};
}

// Along attribute axis.
inline AxisSizes ReadAxis(const OpNode& node, const Shape& x,
                          int64_t fallback) {
  return SizesAlong(x,
                    NormalizeAxis(node, node.Int("axis", fallback), x.rank()));
}

// The same; without the attribute all elements are one line.
inline AxisSizes ReadAxisOrAll(const OpNode& node, const Shape& x) {
  if (!node.Has("axis")) return {.size = x.element_count()};
  return ReadAxis(node, x, 0);
}

}  // namespace strop::ops
