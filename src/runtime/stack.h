// SPDX-License-Identifier: Apache-2.0
//
// One tensor of many along a new axis, and back: what Loop and Scan do.
#pragma once

#include <cstdint>
#include <span>

#include "strop/tensor.h"

namespace strop {

// The tensor without `axis`, at position `index` of it.
OwnedTensor SliceOf(const Tensor& x, size_t axis, int64_t index);

// The pieces, all of one type and shape, along a new axis. Throws where they
// differ; `name` is the value's.
OwnedTensor Stack(std::span<const OwnedTensor> pieces, size_t axis,
                  const std::string& name);

}  // namespace strop
