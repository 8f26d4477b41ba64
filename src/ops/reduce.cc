// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

namespace strop::ops {

AxisSet ReducedAxes(const OpNode& node, const Tensor* axes, size_t rank) {
  if (axes == nullptr || axes->element_count() == 0) {
    AxisSet all;
    if (node.Int("noop_with_empty_axes", 0) == 0) {
      for (size_t i = 0; i < rank; ++i) all.set(i);
    }
    return all;
  }
  return NormalizeAxes(node, ReadSmallInts(node, *axes).span(), rank);
}

Shape ReducedShape(const Shape& shape, const AxisSet& reduced, bool keep) {
  Dims dims = {};
  size_t rank = 0;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (!reduced[i]) {
      dims[rank++] = shape[i];
    } else if (keep) {
      dims[rank++] = 1;
    }
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

void InferReduce(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const Tensor* axes = nullptr;
  if (c.has_input(1)) {
    RequireIndices(c, 1);
    axes = &c.value(1);
  }
  const AxisSet reduced = ReducedAxes(c.node(), axes, x.shape.rank());
  const bool keep = c.node().Int("keepdims", 1) != 0;
  c.SetOutput(0, x.type, ReducedShape(x.shape, reduced, keep));
}

ReduceWalk::ReduceWalk(const Shape& shape, const AxisSet& reduced) {
  const Dims strides = Strides(shape);
  int last_kind = -1;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    const int64_t dim = shape[axis];
    const bool is_reduced = reduced[axis];
    (is_reduced ? reduced_count : output_count) *= dim;
    if (dim == 1) continue;
    size_t& rank = is_reduced ? reduced_rank : kept_rank;
    Dims& dims = is_reduced ? reduced_dims : kept_dims;
    Dims& steps = is_reduced ? reduced_strides : kept_strides;
    if (last_kind == static_cast<int>(is_reduced)) {
      dims[rank - 1] *= dim;
      steps[rank - 1] = strides[axis];
    } else {
      dims[rank] = dim;
      steps[rank++] = strides[axis];
    }
    last_kind = is_reduced;
  }
}

}  // namespace strop::ops
