// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/depthwise_loops.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/depthwise_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(tap, position) for the taps of a window inside the input.
template <class F>
HWY_INLINE void ForEachTap(const DepthwisePlan& plan, const DepthwiseSpan& row,
                           const DepthwiseSpan& column, F&& body) {
  for (int64_t i = row.first; i < row.last; ++i) {
    const int64_t line =
        (row.start + i * plan.dilation_h) * plan.input_w + column.start;
    for (int64_t j = column.first; j < column.last; ++j) {
      body(i * plan.kernel_w + j, line + j * plan.dilation_w);
    }
  }
}

template <int kBlock>
void ForwardLoop(const DepthwisePlan& plan, const float* x, const float* w,
                 const float* bias, float* y) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  for (const DepthwiseSpan& row : plan.rows) {
    for (const DepthwiseSpan& column : plan.columns) {
      for (size_t v = 0; v < kBlock; v += step) {
        auto sum = bias ? hn::LoadU(d, bias + v) : hn::Zero(d);
        ForEachTap(
            plan, row, column, [&](int64_t tap, int64_t position) HWY_ATTR {
              sum = hn::MulAdd(hn::LoadU(d, w + tap * kBlock + v),
                               hn::LoadU(d, x + position * kBlock + v), sum);
            });
        hn::StoreU(sum, d, y + v);
      }
      y += kBlock;
    }
  }
}

template <int kBlock>
void BackwardLoop(const DepthwisePlan& plan, const float* dy, const float* w,
                  float* dx) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  std::fill_n(dx, plan.input_count(), 0.0f);
  for (const DepthwiseSpan& row : plan.rows) {
    for (const DepthwiseSpan& column : plan.columns) {
      for (size_t v = 0; v < kBlock; v += step) {
        const auto gradient = hn::LoadU(d, dy + v);
        ForEachTap(plan, row, column,
                   [&](int64_t tap, int64_t position) HWY_ATTR {
                     float* to = dx + position * kBlock + v;
                     hn::StoreU(hn::MulAdd(hn::LoadU(d, w + tap * kBlock + v),
                                           gradient, hn::LoadU(d, to)),
                                d, to);
                   });
      }
      dy += kBlock;
    }
  }
}

// One tap at a time, so that its sums stay in registers; four of them hide
// the latency of the addition.
template <int kBlock>
void WeightsLoop(const DepthwisePlan& plan, const float* x, const float* dy,
                 float* dw) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  const int64_t height = static_cast<int64_t>(plan.rows.size());
  const int64_t width = static_cast<int64_t>(plan.columns.size());
  for (int64_t tap = 0; tap < plan.taps(); ++tap) {
    const int64_t i = tap / plan.kernel_w, j = tap % plan.kernel_w;
    // The outputs for which this tap lies inside: a run, as windows move on.
    int64_t first = 0, last = width;
    const auto inside = [&](int64_t o) {
      const DepthwiseSpan& column = plan.columns[static_cast<size_t>(o)];
      return j >= column.first && j < column.last;
    };
    while (first < last && !inside(first)) ++first;
    while (last > first && !inside(last - 1)) --last;
    const int64_t stride =
        width > 1 ? plan.columns[1].start - plan.columns[0].start : 0;
    for (size_t v = 0; v < kBlock; v += step) {
      auto sum0 = hn::LoadU(d, dw + tap * kBlock + v);
      auto sum1 = hn::Zero(d), sum2 = sum1, sum3 = sum1;
      for (int64_t h = 0; h < height; ++h) {
        const DepthwiseSpan& row = plan.rows[static_cast<size_t>(h)];
        if (i < row.first || i >= row.last || first == last) continue;
        const float* from = x + v +
                            ((row.start + i * plan.dilation_h) * plan.input_w +
                             plan.columns[static_cast<size_t>(first)].start +
                             j * plan.dilation_w) *
                                kBlock;
        const float* gradient = dy + v + (h * width + first) * kBlock;
        const auto add = [&](auto& sum) HWY_ATTR {
          sum = hn::MulAdd(hn::LoadU(d, from), hn::LoadU(d, gradient), sum);
          from += stride * kBlock;
          gradient += kBlock;
        };
        int64_t o = first;
        for (; o + 4 <= last; o += 4) {
          add(sum0);
          add(sum1);
          add(sum2);
          add(sum3);
        }
        for (; o < last; ++o) add(sum0);
      }
      hn::StoreU(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)), d,
                 dw + tap * kBlock + v);
    }
  }
}

DepthwiseForward SelectDepthwiseForward(Layout layout) {
  return layout == Layout::kBlocked16 ? ForwardLoop<16> : ForwardLoop<8>;
}

DepthwiseBackward SelectDepthwiseBackward(Layout layout) {
  return layout == Layout::kBlocked16 ? BackwardLoop<16> : BackwardLoop<8>;
}

DepthwiseWeights SelectDepthwiseWeights(Layout layout) {
  return layout == Layout::kBlocked16 ? WeightsLoop<16> : WeightsLoop<8>;
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(SelectDepthwiseForward);
HWY_EXPORT(SelectDepthwiseBackward);
HWY_EXPORT(SelectDepthwiseWeights);
}  // namespace

DepthwiseForward GetDepthwiseForward(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectDepthwiseForward)(layout);
}

DepthwiseBackward GetDepthwiseBackward(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectDepthwiseBackward)(layout);
}

DepthwiseWeights GetDepthwiseWeights(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectDepthwiseWeights)(layout);
}

}  // namespace strop
#endif  // HWY_ONCE
