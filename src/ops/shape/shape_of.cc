// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// Attributes start and end, negative ones from the back, clamped.
std::pair<int64_t, int64_t> ShapeRange(const OpNode& node, size_t rank) {
  const int64_t n = static_cast<int64_t>(rank);
  const auto clamp = [n](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + n : axis, 0, n);
  };
  const int64_t start = clamp(node.Int("start", 0));
  return {start, std::max(start, clamp(node.Int("end", n)))};
}

void InferShapeOf(InferContext& c) {
  const auto [start, end] = ShapeRange(c.node(), c.input(0).shape.rank());
  c.SetOutput(0, DataType::kInt64, {end - start});
}

void InferSize(InferContext& c) {
  c.input(0);
  c.SetOutput(0, DataType::kInt64, {});
}

}  // namespace

extern constexpr OpDef kShape = {
    .name = "Shape",
    .infer = InferShapeOf,
    .reference = {.run =
                      [](const KernelContext& c) {
                        const Shape& x = c.input(0).shape();
                        const auto [start, end] =
                            ShapeRange(c.node(), x.rank());
                        std::copy(x.begin() + start, x.begin() + end,
                                  c.out<int64_t>(0).begin());
                      },
                  .supports = [](DataType) { return true; }},
    .shape_inputs = {0},
    .stops_gradient = {0}};

// The number of elements.
extern constexpr OpDef kSize = {
    .name = "Size",
    .infer = InferSize,
    .reference = {.run =
                      [](const KernelContext& c) {
                        c.out<int64_t>(0)[0] = c.input(0).element_count();
                      },
                  .supports = [](DataType) { return true; }},
    .shape_inputs = {0},
    .stops_gradient = {0}};

}  // namespace strop::ops
