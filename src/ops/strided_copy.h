// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// A copy between two arrays that walk the same index space with different
// strides: Transpose, Slice, Concat, Expand, Pad and Tile are all one of
// these. Strides count elements and may be 0 (in `from`) or negative.
struct StridedCopy {
  // Tile repeats every axis, hence the double rank.
  static constexpr size_t kMaxAxes = 2 * Shape::kMaxRank;

  size_t rank = 0;
  int64_t dims[kMaxAxes] = {};
  int64_t from_strides[kMaxAxes] = {};
  int64_t to_strides[kMaxAxes] = {};
  int64_t from_offset = 0;
  int64_t to_offset = 0;

  // Axes are added from the outermost to the innermost.
  void AddAxis(int64_t dim, int64_t from_stride, int64_t to_stride);

  void Run(const KernelContext& c, const Tensor& from, const Tensor& to) const;
};

}  // namespace strop::ops
