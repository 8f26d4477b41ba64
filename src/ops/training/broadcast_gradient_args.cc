// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

// The axes over which each operand's gradient is summed, last axis first.
struct GradientAxes {
  SmallInts a, b;
};

GradientAxes FindAxes(const OpNode& node, const SmallInts& a,
                      const SmallInts& b) {
  GradientAxes axes;
  const size_t rank = std::max(a.size, b.size);
  const auto add = [](SmallInts& list, size_t axis) {
    list.values[list.size++] = static_cast<int64_t>(axis);
  };
  for (size_t i = 0; i < rank; ++i) {  // from the right
    const size_t axis = rank - 1 - i;
    if (i >= a.size) {
      add(axes.a, axis);
    } else if (i >= b.size) {
      add(axes.b, axis);
    } else {
      const int64_t x = a.values[a.size - 1 - i];
      const int64_t y = b.values[b.size - 1 - i];
      if (x == y) continue;
      if (x != 1 && y != 1) {
        Fail(node, "shapes ({}) and ({}) do not broadcast",
             fmt::join(a.span(), ", "), fmt::join(b.span(), ", "));
      }
      add(x == 1 ? axes.a : axes.b, axis);
    }
  }
  return axes;
}

void InferArgs(InferContext& c) {
  RequireType(c, 0, DataType::kInt64);
  RequireType(c, 1, DataType::kInt64);
  const GradientAxes axes =
      FindAxes(c.node(), ReadSmallInts(c.node(), c.value(0)),
               ReadSmallInts(c.node(), c.value(1)));
  c.SetOutput(0, DataType::kInt64, {static_cast<int64_t>(axes.a.size)});
  c.SetOutput(1, DataType::kInt64, {static_cast<int64_t>(axes.b.size)});
}

void RunArgs(const KernelContext& c) {
  const GradientAxes axes =
      FindAxes(c.node(), ReadSmallInts(c.node(), c.input(0)),
               ReadSmallInts(c.node(), c.input(1)));
  const auto set = [&](size_t output, const SmallInts& list) {
    if (!c.has_output(output)) return;
    std::copy_n(list.values.begin(), list.size, c.out<int64_t>(output).begin());
  };
  set(0, axes.a);
  set(1, axes.b);
}

}  // namespace

// Shapes of two operands that broadcast -> the axes over which the gradient
// of each is to be summed.
extern constexpr OpDef kBroadcastGradientArgs = {
    .name = "BroadcastGradientArgs",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .outputs = {0, 2},
    .infer = InferArgs,
    .reference = {.run = RunArgs,
                  .supports =
                      [](DataType type) { return type == DataType::kInt64; }},
    .value_inputs = {0, 1},
    .stops_gradient = {0, 1}};

}  // namespace strop::ops
