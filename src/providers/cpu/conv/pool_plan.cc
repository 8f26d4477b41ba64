// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/pool_plan.h"

#include <algorithm>
#include <limits>

#include "base/round.h"

namespace strop {
namespace {

// Taps k >= 0 with position start + k * dilation in [low, high).
int64_t FirstTap(int64_t start, int64_t low, int64_t dilation) {
  return start >= low ? 0 : CeilDiv(low - start, dilation);
}

int64_t CountTaps(int64_t start, int64_t low, int64_t high, int64_t dilation,
                  int64_t taps) {
  if (start >= high) return 0;
  const int64_t end = CeilDiv(high - start, dilation);
  return std::max<int64_t>(
      0, std::min(end, taps) - FirstTap(start, low, dilation));
}

PoolAxis MakeAxis(const ops::Window& w, size_t axis, bool include_pad,
                  int64_t pitch) {
  PoolAxis made;
  made.step = w.dilation[axis] * pitch;
  made.stride = w.stride[axis] * pitch;
  made.kernel = w.kernel[axis];
  made.outputs.clear();
  for (int64_t o = 0; o < w.output[axis]; ++o) {
    const int64_t start = o * w.stride[axis] - w.pad_begin[axis];
    PoolSpan span;
    span.start =
        (start + FirstTap(start, 0, w.dilation[axis]) * w.dilation[axis]) *
        pitch;
    span.count =
        CountTaps(start, 0, w.input[axis], w.dilation[axis], w.kernel[axis]);
    span.divisor = include_pad ? CountTaps(start, -w.pad_begin[axis],
                                           w.input[axis] + w.pad_end[axis],
                                           w.dilation[axis], w.kernel[axis])
                               : span.count;
    made.outputs.push_back(span);
  }
  const auto cut = [&](const PoolSpan& span) {
    return span.count < w.kernel[axis];
  };
  const auto whole = std::ranges::find_if_not(made.outputs, cut);
  const auto end = std::find_if(whole, made.outputs.end(), cut);
  made.whole_first = whole - made.outputs.begin();
  made.whole_last = end - made.outputs.begin();
  return made;
}

}  // namespace

std::optional<PoolPlan> MakePoolPlan(const OpNode& node, const Shape& x,
                                     Layout layout) {
  const ops::Window w = ops::PoolWindow(node, x);
  // Indices in a plane are 32 bits wide; a plan lists every output position.
  constexpr int64_t kMostPlane = std::numeric_limits<int32_t>::max();
  if (w.rank > 3 || w.input_size() > kMostPlane ||
      w.output_size() > kMostPlane) {
    return std::nullopt;
  }
  PoolPlan plan;
  plan.layout = layout;
  plan.batch = x[0];
  plan.channels = x[1];
  plan.input_size = w.input_size();
  plan.output_size = w.output_size();
  const bool include_pad = node.Int("count_include_pad", 0) != 0;
  int64_t pitch = 1;
  for (size_t axis = w.rank; axis-- > 0;) {
    PoolAxis& made = plan.axes[3 - w.rank + axis];
    made = MakeAxis(w, axis, include_pad, pitch);
    for (const PoolSpan& span : made.outputs) {
      plan.has_empty_window |= span.count == 0;
    }
    pitch *= w.input[axis];
  }
  return plan;
}

}  // namespace strop
