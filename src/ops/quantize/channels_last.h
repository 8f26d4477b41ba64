// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft's attribute channels_last: the channels of a tensor are its
// last axis.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// A tensor with its channels where most ops have them.
struct PlaneLayout {
  Shape shape;  // (batch, channels, spatial...)
  int64_t spatial_step = 1;
  bool last = false;

  explicit PlaneLayout(const Shape& x) : shape(x) {}

  PlaneLayout(const OpNode& node, const Shape& x) : shape(x) {
    if (x.rank() < 3) {
      Fail(node, "wants an input of rank 3 or more, not {}", x.ToString());
    }
    const size_t rank = x.rank();
    last = node.Int("channels_last", 0) != 0;
    if (!last) return;
    spatial_step = x[rank - 1];
    Dims dims = {x[0], x[rank - 1]};
    for (size_t i = 2; i < rank; ++i) dims[i] = x[i - 1];
    shape = Shape(std::span<const int64_t>(dims.data(), rank));
  }

  // A shape with the channels where the tensor has them.
  Shape Restore(const Shape& y) const {
    if (!last) return y;
    const size_t rank = y.rank();
    Dims dims = {y[0]};
    for (size_t i = 2; i < rank; ++i) dims[i - 1] = y[i];
    dims[rank - 1] = y[1];
    return Shape(std::span<const int64_t>(dims.data(), rank));
  }

  // Element 0 of a plane, where planes have `size` elements.
  int64_t PlaneStart(int64_t plane, int64_t size) const {
    const int64_t channels = shape[1];
    return plane / channels * channels * size +
           plane % channels * (last ? 1 : size);
  }
};

}  // namespace strop::ops
