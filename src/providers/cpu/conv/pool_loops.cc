// SPDX-License-Identifier: Apache-2.0
//
// The loops of pooling over one block of channels: a vector holds the
// channels of one position.
#include <algorithm>
#include <cstring>
#include <limits>

#include "providers/cpu/conv/pool_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/pool_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(a, b, c, o) for the windows of all outputs in order.
template <class F>
HWY_INLINE void ForEachWindow(const PoolPlan& plan, F&& body) {
  int64_t o = 0;
  for (const PoolSpan& a : plan.axes[0].outputs) {
    for (const PoolSpan& b : plan.axes[1].outputs) {
      for (const PoolSpan& c : plan.axes[2].outputs) body(a, b, c, o++);
    }
  }
}

// Calls body(position) for the cells of a window.
template <class F>
HWY_INLINE void ForEachCell(const PoolPlan& plan, const PoolSpan& a,
                            const PoolSpan& b, const PoolSpan& c, F&& body) {
  for (int64_t i = 0; i < a.count; ++i) {
    const int64_t plane = a.start + i * plan.axes[0].step;
    for (int64_t j = 0; j < b.count; ++j) {
      const int64_t row = plane + b.start + j * plan.axes[1].step + c.start;
      for (int64_t k = 0; k < c.count; ++k) {
        body(row + k * plan.axes[2].step);
      }
    }
  }
}

// A NaN wins over all, as it must be seen; of equal values the first.
template <int kBlock, bool kIndex>
void MaxPoolLoop(const PoolPlan& plan, const float* x, float* y, int64_t* index,
                 int64_t index_base, int64_t lanes) {
  const hn::CappedTag<float, kBlock> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t step = hn::Lanes(d);
  ForEachWindow(plan, [&](const PoolSpan& a, const PoolSpan& b,
                          const PoolSpan& c, int64_t o) HWY_ATTR {
    const bool empty = a.count == 0 || b.count == 0 || c.count == 0;
    const int64_t first = empty ? 0 : a.start + b.start + c.start;
    HWY_ALIGN int32_t at[kBlock];
    for (size_t v = 0; v < kBlock; v += step) {
      auto best = empty ? hn::Set(d, -std::numeric_limits<float>::infinity())
                        : hn::LoadU(d, x + first * kBlock + v);
      auto best_at = hn::Set(di, static_cast<int32_t>(first));
      ForEachCell(plan, a, b, c, [&](int64_t position) HWY_ATTR {
        const auto value = hn::LoadU(d, x + position * kBlock + v);
        const auto better = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
        best = hn::IfThenElse(better, value, best);
        if constexpr (kIndex) {
          best_at = hn::IfThenElse(hn::RebindMask(di, better),
                                   hn::Set(di, static_cast<int32_t>(position)),
                                   best_at);
        }
      });
      hn::StoreU(best, d, y + o * kBlock + v);
      if constexpr (kIndex) hn::Store(best_at, di, at + v);
    }
    if constexpr (kIndex) {
      int64_t* to = index + o * kBlock;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        to[lane] = empty ? -1 : index_base + lane * plan.input_size + at[lane];
      }
      for (int64_t lane = lanes; lane < kBlock; ++lane) to[lane] = 0;
    }
  });
}

template <int kBlock>
void MaxPool(const PoolPlan& plan, const float* x, float* y, int64_t* index,
             int64_t index_base, int64_t lanes) {
  if (index) {
    MaxPoolLoop<kBlock, true>(plan, x, y, index, index_base, lanes);
  } else {
    MaxPoolLoop<kBlock, false>(plan, x, y, index, index_base, lanes);
  }
}

// The cells that the average of a window divides by.
HWY_INLINE float Divisor(const PoolSpan& a, const PoolSpan& b,
                         const PoolSpan& c) {
  return static_cast<float>(
      std::max<int64_t>(1, a.divisor * b.divisor * c.divisor));
}

template <int kBlock>
void AveragePool(const PoolPlan& plan, const float* x, float* y) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  ForEachWindow(plan, [&](const PoolSpan& a, const PoolSpan& b,
                          const PoolSpan& c, int64_t o) HWY_ATTR {
    const auto divisor = hn::Set(d, Divisor(a, b, c));
    for (size_t v = 0; v < kBlock; v += step) {
      auto sum = hn::Zero(d);
      ForEachCell(plan, a, b, c, [&](int64_t position) HWY_ATTR {
        sum = hn::Add(sum, hn::LoadU(d, x + position * kBlock + v));
      });
      hn::StoreU(hn::Div(sum, divisor), d, y + o * kBlock + v);
    }
  });
}

template <int kBlock>
void AveragePoolGrad(const PoolPlan& plan, const float* dy, float* dx) {
  const hn::CappedTag<float, kBlock> d;
  const size_t step = hn::Lanes(d);
  std::fill_n(dx, plan.input_size * kBlock, 0.0f);
  ForEachWindow(plan, [&](const PoolSpan& a, const PoolSpan& b,
                          const PoolSpan& c, int64_t o) HWY_ATTR {
    const auto divisor = hn::Set(d, Divisor(a, b, c));
    for (size_t v = 0; v < kBlock; v += step) {
      const auto part = hn::Div(hn::LoadU(d, dy + o * kBlock + v), divisor);
      ForEachCell(plan, a, b, c, [&](int64_t position) HWY_ATTR {
        float* target = dx + position * kBlock + v;
        hn::StoreU(hn::Add(hn::LoadU(d, target), part), d, target);
      });
    }
  });
}

template <class Function>
Function Select(Layout layout, Function plain, Function by8, Function by16) {
  switch (layout) {
    case Layout::kPlain:
      return plain;
    case Layout::kBlocked8:
      return by8;
    case Layout::kBlocked16:
      return by16;
  }
  return plain;
}

MaxPoolFunction SelectMaxPool(Layout layout) {
  return Select<MaxPoolFunction>(layout, MaxPool<1>, MaxPool<8>, MaxPool<16>);
}

AveragePoolFunction SelectAveragePool(Layout layout) {
  return Select<AveragePoolFunction>(layout, AveragePool<1>, AveragePool<8>,
                                     AveragePool<16>);
}

AveragePoolFunction SelectAveragePoolGrad(Layout layout) {
  return Select<AveragePoolFunction>(layout, AveragePoolGrad<1>,
                                     AveragePoolGrad<8>, AveragePoolGrad<16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(SelectMaxPool);
HWY_EXPORT(SelectAveragePool);
HWY_EXPORT(SelectAveragePoolGrad);
}  // namespace

MaxPoolFunction GetMaxPool(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectMaxPool)(layout);
}

AveragePoolFunction GetAveragePool(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectAveragePool)(layout);
}

AveragePoolFunction GetAveragePoolGrad(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectAveragePoolGrad)(layout);
}

}  // namespace strop
#endif  // HWY_ONCE
