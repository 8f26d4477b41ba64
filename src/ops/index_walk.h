// SPDX-License-Identifier: Apache-2.0
//
// How GatherElements, ScatterElements, GatherND, ScatterND and their
// gradients walk their indices.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// --- Elements: index (i, j, k) names data[i, indices[i, j, k], k] for axis 1.

// Throws unless the indices fit into the data.
void CheckElements(const OpNode& node, const Shape& data, const Shape& indices);

// Calls move(offset in data, position in indices) for every index, in order.
template <class F>
void ForEachElement(const KernelContext& c, const Shape& data,
                    const Tensor& indices, F&& move) {
  const size_t rank = data.rank();
  const size_t axis = NormalizeAxis(c.node(), c.node().Int("axis", 0), rank);
  const Dims strides = Strides(data);
  const Shape& shape = indices.shape();
  Dims at = {};
  const int64_t count = indices.element_count();
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset =
        CheckIndex(c.node(), IndexAt(indices, i), data[axis]) * strides[axis];
    for (size_t a = 0; a < rank; ++a) {
      if (a != axis) offset += at[a] * strides[a];
    }
    move(offset, i);
    for (size_t a = rank; a-- > 0;) {
      if (++at[a] < shape[a]) break;
      at[a] = 0;
    }
  }
}

// --- ND: the last axis of the indices is a position in the data.

struct NdSizes {
  int64_t batches = 1;    // product of the batch_dims leading axes
  int64_t rows = 1;       // index tuples in one batch
  size_t depth = 0;       // numbers in a tuple
  size_t first_axis = 0;  // batch_dims
  int64_t block = 1;      // elements that one tuple names
};

NdSizes ReadNd(const OpNode& node, const Shape& data, const Shape& indices);

// The shape of what the indices name in the data.
Shape GatherNdShape(const OpNode& node, const Shape& data,
                    const Shape& indices);

// Calls move(block in data, row) for every index tuple, in order.
template <class F>
void ForEachTuple(const KernelContext& c, const Shape& data,
                  const Tensor& indices, const NdSizes& s, F&& move) {
  const int64_t blocks_in_batch =
      data.element_count(s.first_axis, s.first_axis + s.depth);
  for (int64_t row = 0; row < s.batches * s.rows; ++row) {
    int64_t block = 0;
    for (size_t i = 0; i < s.depth; ++i) {
      const int64_t size = data[s.first_axis + i];
      const int64_t index =
          IndexAt(indices, static_cast<size_t>(row) * s.depth + i);
      block = block * size + CheckIndex(c.node(), index, size);
    }
    move(row / s.rows * blocks_in_batch + block, row);
  }
}

}  // namespace strop::ops
