// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "strop/tensor.h"

namespace strop {

// Copies rows (slices along the first axis) of `source` one after the other
// into `target`, which may have another element type and row shape of as many
// elements. Values are multiplied by `scale` first; only floating-point
// targets may be scaled.
void GatherRows(const Tensor& source, std::span<const int64_t> rows,
                double scale, const Tensor& target);

// Throws kInvalidArgument unless each value of `source` can be held as
// `type`: integers must fit and fractions need a floating-point type. `what`
// begins the text.
void CheckConvertible(const Tensor& source, DataType type,
                      std::string_view what);

bool IsFloatingPoint(DataType type);

}  // namespace strop
