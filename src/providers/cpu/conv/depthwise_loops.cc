// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/depthwise_loops.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/depthwise_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/conv/unroll-inl.h"
#include "providers/cpu/simd/vector-inl.h"

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

// Where the nine taps of a kernel of 3 x 3 lie, seen from the first.
struct NineTaps {
  int64_t at[9];

  NineTaps(const DepthwisePlan& plan, int64_t block) {
    for (int64_t i = 0; i < 9; ++i) {
      at[i] =
          (i / 3 * plan.dilation_h * plan.input_w + i % 3 * plan.dilation_w) *
          block;
    }
  }
};

HWY_INLINE bool HasNineTaps(const DepthwisePlan& plan) {
  return plan.kernel_h == 3 && plan.kernel_w == 3;
}

// The first tap of an output in the input.
HWY_INLINE int64_t FirstTap(const DepthwisePlan& plan, const DepthwiseSpan& row,
                            int64_t column) {
  return row.start * plan.input_w +
         plan.columns[static_cast<size_t>(column)].start;
}

// Calls any(first, last) for the columns of a row that need care and inner(
// first, last) for those that do not.
template <class Any, class Inner>
HWY_INLINE void ForEachStretch(const DepthwisePlan& plan,
                               const DepthwiseSpan& row, Any&& any,
                               Inner&& inner) {
  const int64_t width = static_cast<int64_t>(plan.columns.size());
  if (HasNineTaps(plan) && plan.IsInner(row) &&
      plan.inner_begin < plan.inner_end) {
    any(0, plan.inner_begin);
    inner(plan.inner_begin, plan.inner_end);
    any(plan.inner_end, width);
  } else {
    any(0, width);
  }
}

template <int kBlock>
void ForwardAny(const DepthwisePlan& plan, const float* x, const float* w,
                const float* bias, float* y) {
  const hn::CappedTag<float, kBlock> d;
  const auto low = hn::Set(d, plan.bounds.low);
  const auto high = hn::Set(d, plan.bounds.high);
  for (const DepthwiseSpan& row : plan.rows) {
    for (const DepthwiseSpan& column : plan.columns) {
      for (size_t v = 0; v < kBlock; v += hn::Lanes(d)) {
        auto sum = bias ? hn::LoadU(d, bias + v) : hn::Zero(d);
        ForEachTap(
            plan, row, column, [&](int64_t tap, int64_t position) HWY_ATTR {
              sum = hn::MulAdd(hn::LoadU(d, w + tap * kBlock + v),
                               hn::LoadU(d, x + position * kBlock + v), sum);
            });
        hn::StoreU(ClipKeepingNan(sum, low, high), d, y + v);
      }
      y += kBlock;
    }
  }
}

// One vector of one row of outputs by a kernel of 3 x 3, whose rows read
// from[i]: what lies outside reads zeros, so that all rows are alike.
template <int kBlock>
void ForwardNineRow(const DepthwisePlan& plan, const float* const* from,
                    const float* w, const float* bias, float* y) {
  const hn::CappedTag<float, kBlock> d;
  const auto start = bias ? hn::LoadU(d, bias) : hn::Zero(d);
  const auto low = hn::Set(d, plan.bounds.low);
  const auto high = hn::Set(d, plan.bounds.high);
  const int64_t dilation = plan.dilation_w * kBlock;
  hn::Vec<decltype(d)> weights[9];
  UnrollTimes<9>([&](auto i)
                     HWY_ATTR { weights[i] = hn::LoadU(d, w + i * kBlock); });
  const auto store = [&](const auto* sums, int64_t o) HWY_ATTR {
    const auto sum = hn::Add(hn::Add(sums[0], sums[1]), sums[2]);
    hn::StoreU(ClipKeepingNan(sum, low, high), d, y + o * kBlock);
  };
  const auto edge = [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t o = first; o < last; ++o) {
      const DepthwiseSpan& column = plan.columns[static_cast<size_t>(o)];
      hn::Vec<decltype(d)> sums[3] = {start, hn::Zero(d), hn::Zero(d)};
      for (int64_t j = column.first; j < column.last; ++j) {
        const int64_t at = column.start * kBlock + j * dilation;
        UnrollTimes<3>([&](auto i) HWY_ATTR {
          const auto weight = hn::LoadU(d, w + (3 * i + j) * kBlock);
          sums[i] = hn::MulAdd(weight, hn::LoadU(d, from[i] + at), sums[i]);
        });
      }
      store(sums, o);
    }
  };
  const auto inner = [&](int64_t first, int64_t last) HWY_ATTR {
    int64_t at = plan.columns[static_cast<size_t>(first)].start * kBlock;
    for (int64_t o = first; o < last; ++o, at += plan.stride_w * kBlock) {
      hn::Vec<decltype(d)> sums[3] = {start, hn::Zero(d), hn::Zero(d)};
      UnrollTimes<9>([&](auto k) HWY_ATTR {
        constexpr int i = k / 3, j = k % 3;
        const auto value = hn::LoadU(d, from[i] + at + j * dilation);
        sums[i] = hn::MulAdd(weights[k], value, sums[i]);
      });
      store(sums, o);
    }
  };
  edge(0, plan.inner_begin);
  if (plan.inner_begin < plan.inner_end) {
    inner(plan.inner_begin, plan.inner_end);
  }
  edge(plan.inner_end, static_cast<int64_t>(plan.columns.size()));
}

template <int kBlock>
void ForwardNine(const DepthwisePlan& plan, const float* x, const float* w,
                 const float* bias, float* y) {
  const hn::CappedTag<float, kBlock> d;
  for (const DepthwiseSpan& row : plan.rows) {
    for (size_t v = 0; v < kBlock; v += hn::Lanes(d)) {
      const float* from[3];
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t line = row.start + i * plan.dilation_h;
        from[i] = i >= row.first && i < row.last
                      ? x + line * plan.input_w * kBlock + v
                      : plan.zeros.data() + v;
      }
      ForwardNineRow<kBlock>(plan, from, w + v, bias ? bias + v : nullptr,
                             y + v);
    }
    y += plan.columns.size() * kBlock;
  }
}

template <int kBlock>
void ForwardLoop(const DepthwisePlan& plan, const float* x, const float* w,
                 const float* bias, float* y) {
  const auto run = HasNineTaps(plan) ? ForwardNine<kBlock> : ForwardAny<kBlock>;
  run(plan, x, w, bias, y);
}

template <int kBlock>
void BackwardLoop(const DepthwisePlan& plan, const float* dy, const float* w,
                  float* dx) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  const int64_t width = static_cast<int64_t>(plan.columns.size());
  const int64_t stride = plan.stride_w * kBlock;
  const NineTaps nine(plan, kBlock);
  std::fill_n(dx, plan.input_count(), 0.0f);
  for (const DepthwiseSpan& row : plan.rows) {
    for (size_t v = 0; v < kBlock; v += step) {
      const auto any = [&](int64_t first, int64_t last) HWY_ATTR {
        for (int64_t o = first; o < last; ++o) {
          const auto gradient = hn::LoadU(d, dy + o * kBlock + v);
          ForEachTap(plan, row, plan.columns[static_cast<size_t>(o)],
                     [&](int64_t tap, int64_t position) HWY_ATTR {
                       float* to = dx + position * kBlock + v;
                       hn::StoreU(hn::MulAdd(hn::LoadU(d, w + tap * kBlock + v),
                                             gradient, hn::LoadU(d, to)),
                                  d, to);
                     });
        }
      };
      const auto inner = [&](int64_t first, int64_t last) HWY_ATTR {
        hn::Vec<decltype(d)> weights[9];
        UnrollTimes<9>([&](auto i) HWY_ATTR {
          weights[i] = hn::LoadU(d, w + i * kBlock + v);
        });
        float* to = dx + FirstTap(plan, row, first) * kBlock + v;
        for (int64_t o = first; o < last; ++o, to += stride) {
          const auto gradient = hn::LoadU(d, dy + o * kBlock + v);
          UnrollTimes<9>([&](auto i) HWY_ATTR {
            float* at = to + nine.at[i];
            hn::StoreU(hn::MulAdd(weights[i], gradient, hn::LoadU(d, at)), d,
                       at);
          });
        }
      };
      ForEachStretch(plan, row, any, inner);
    }
    dy += width * kBlock;
  }
}

// The sums of the taps of 3 x 3 stay in registers for the whole image; what
// the borders give is added in memory.
template <int kBlock>
void WeightsLoop(const DepthwisePlan& plan, const float* x, const float* dy,
                 float* dw) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  const int64_t width = static_cast<int64_t>(plan.columns.size());
  const int64_t stride = plan.stride_w * kBlock;
  const NineTaps nine(plan, kBlock);
  for (size_t v = 0; v < kBlock; v += step) {
    hn::Vec<decltype(d)> sums[9];
    UnrollTimes<9>([&](auto i) HWY_ATTR { sums[i] = hn::Zero(d); });
    const float* gradients = dy + v;
    for (const DepthwiseSpan& row : plan.rows) {
      const auto any = [&](int64_t first, int64_t last) HWY_ATTR {
        for (int64_t o = first; o < last; ++o) {
          const auto gradient = hn::LoadU(d, gradients + o * kBlock);
          ForEachTap(plan, row, plan.columns[static_cast<size_t>(o)],
                     [&](int64_t tap, int64_t position) HWY_ATTR {
                       float* to = dw + tap * kBlock + v;
                       hn::StoreU(
                           hn::MulAdd(hn::LoadU(d, x + position * kBlock + v),
                                      gradient, hn::LoadU(d, to)),
                           d, to);
                     });
        }
      };
      const auto inner = [&](int64_t first, int64_t last) HWY_ATTR {
        const float* from = x + FirstTap(plan, row, first) * kBlock + v;
        for (int64_t o = first; o < last; ++o, from += stride) {
          const auto gradient = hn::LoadU(d, gradients + o * kBlock);
          UnrollTimes<9>([&](auto i) HWY_ATTR {
            sums[i] =
                hn::MulAdd(hn::LoadU(d, from + nine.at[i]), gradient, sums[i]);
          });
        }
      };
      ForEachStretch(plan, row, any, inner);
      gradients += width * kBlock;
    }
    if (!HasNineTaps(plan)) continue;
    UnrollTimes<9>([&](auto i) HWY_ATTR {
      float* to = dw + i * kBlock + v;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sums[i]), d, to);
    });
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
