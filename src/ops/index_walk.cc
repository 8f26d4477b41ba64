// SPDX-License-Identifier: Apache-2.0
#include "ops/index_walk.h"

namespace strop::ops {

void CheckElements(const OpNode& node, const Shape& data,
                   const Shape& indices) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", 0), data.rank());
  bool fits = data.rank() == indices.rank();
  for (size_t i = 0; fits && i < data.rank(); ++i) {
    fits = i == axis || indices[i] <= data[i];
  }
  if (!fits) {
    Fail(node, "indices {} do not fit into data {}", indices.ToString(),
         data.ToString());
  }
}

NdSizes ReadNd(const OpNode& node, const Shape& data, const Shape& indices) {
  const int64_t batch_dims = node.Int("batch_dims", 0);
  const size_t rank = std::min(data.rank(), indices.rank());
  if (batch_dims < 0 || rank == 0 || batch_dims >= static_cast<int64_t>(rank)) {
    Fail(node, "batch_dims {} does not fit data {} and indices {}", batch_dims,
         data.ToString(), indices.ToString());
  }
  NdSizes s;
  s.first_axis = static_cast<size_t>(batch_dims);
  const int64_t depth = indices[indices.rank() - 1];
  if (depth < 1 || depth > static_cast<int64_t>(data.rank() - s.first_axis)) {
    Fail(node, "index tuples of length {} do not fit data {}", depth,
         data.ToString());
  }
  s.depth = static_cast<size_t>(depth);
  for (size_t i = 0; i < s.first_axis; ++i) {
    if (data[i] != indices[i]) {
      Fail(node, "data {} and indices {} differ in batch axis {}",
           data.ToString(), indices.ToString(), i);
    }
  }
  s.batches = data.element_count(0, s.first_axis);
  s.rows = indices.element_count(s.first_axis, indices.rank() - 1);
  s.block = data.element_count(s.first_axis + s.depth, data.rank());
  return s;
}

Shape GatherNdShape(const OpNode& node, const Shape& data,
                    const Shape& indices) {
  const NdSizes s = ReadNd(node, data, indices);
  std::vector<int64_t> dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), data.begin() + s.first_axis + s.depth, data.end());
  return Shape(dims);
}

}  // namespace strop::ops
