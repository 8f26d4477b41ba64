// SPDX-License-Identifier: Apache-2.0
//
// The loops of pooling over one block of channels: a vector holds the
// channels of one position. In a plain plane it holds neighbours of a row.
#include <algorithm>
#include <cstring>
#include <limits>

#include "providers/cpu/conv/pool_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/pool_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

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

// The greatest values so far and their positions. A NaN wins over all, as it
// must be seen; of equal values the first.
template <class D, bool kIndex>
struct Greatest {
  using Vec = hn::Vec<D>;
  using Positions = hn::RebindToSigned<D>;

  // `first`: the position where nothing is greater than -infinity.
  HWY_INLINE explicit Greatest(int64_t first)
      : best(hn::Set(D(), -std::numeric_limits<float>::infinity())),
        best_at(hn::Set(Positions(), static_cast<int32_t>(first))) {}
  HWY_INLINE void Add(Vec value, int64_t position) {
    const Positions di;
    const auto better = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
    best = hn::IfThenElse(better, value, best);
    if constexpr (kIndex) {
      best_at =
          hn::IfThenElse(hn::RebindMask(di, better),
                         hn::Set(di, static_cast<int32_t>(position)), best_at);
    }
  }

  Vec best;
  hn::Vec<Positions> best_at;
};

// Where a pool writes, and what it adds to the positions in a plane.
struct MaxPoolTarget {
  float* y;
  int64_t* index;
  int64_t index_base;
};

// Output o of a block of channels.
template <int kBlock, bool kIndex>
HWY_INLINE void MaxPoolWindow(const PoolPlan& plan, const PoolSpan& a,
                              const PoolSpan& b, const PoolSpan& c,
                              const float* x, int64_t o, int64_t lanes,
                              const MaxPoolTarget& target) {
  using Tag = hn::CappedTag<float, kBlock>;
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const bool empty = a.count == 0 || b.count == 0 || c.count == 0;
  const int64_t first = empty ? 0 : a.start + b.start + c.start;
  HWY_ALIGN int32_t at[kBlock];
  for (size_t v = 0; v < kBlock; v += hn::Lanes(d)) {
    Greatest<Tag, kIndex> greatest(first);
    ForEachCell(plan, a, b, c, [&](int64_t position) HWY_ATTR {
      greatest.Add(hn::LoadU(d, x + position * kBlock + v), position);
    });
    hn::StoreU(greatest.best, d, target.y + o * kBlock + v);
    if constexpr (kIndex) hn::Store(greatest.best_at, di, at + v);
  }
  if constexpr (kIndex) {
    int64_t* to = target.index + o * kBlock;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      to[lane] =
          empty ? -1 : target.index_base + lane * plan.input_size + at[lane];
    }
    for (int64_t lane = lanes; lane < kBlock; ++lane) to[lane] = 0;
  }
}

template <int kBlock, bool kIndex>
void MaxPoolLoop(const PoolPlan& plan, const float* x, int64_t lanes,
                 const MaxPoolTarget& target) {
  ForEachWindow(plan, [&](const PoolSpan& a, const PoolSpan& b,
                          const PoolSpan& c, int64_t o) HWY_ATTR {
    MaxPoolWindow<kBlock, kIndex>(plan, a, b, c, x, o, lanes, target);
  });
}

#if HWY_TARGET != HWY_SCALAR
// A vector of x[position + lane * kStride]. Nothing is read beyond `size`, nor
// before x if another cell of the first window lies there.
template <int kStride, class D>
HWY_INLINE hn::Vec<D> LoadStrided(D d, const float* x, int64_t position,
                                  int64_t size) {
  static_assert(kStride == 1 || kStride == 2);
  const float* p = x + position;
  if constexpr (kStride == 1) return hn::LoadU(d, p);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (position + 2 * lanes <= size) {
    return hn::ConcatEven(d, hn::LoadU(d, p + lanes), hn::LoadU(d, p));
  }
  --p;
  return hn::ConcatOdd(d, hn::LoadU(d, p + lanes), hn::LoadU(d, p));
}

// to[lane] = v[lane] + base
template <class D, class V>
HWY_INLINE void StoreIndices(D di, V v, int64_t base, int64_t* to) {
  const hn::Half<D> half;
  const hn::Rebind<int64_t, hn::Half<D>> wide;
  const auto bases = hn::Set(wide, base);
  const auto low = hn::PromoteTo(wide, hn::LowerHalf(half, v));
  const auto high = hn::PromoteTo(wide, hn::UpperHalf(half, v));
  hn::StoreU(hn::Add(low, bases), wide, to);
  hn::StoreU(hn::Add(high, bases), wide, to + hn::Lanes(di) / 2);
}

// Outputs of neighbouring windows, one in each lane of D, from output o on,
// whose window is (a, b, c).
template <class D, int kStride, bool kIndex>
HWY_INLINE void MaxPoolNeighbours(const PoolPlan& plan, const PoolSpan& a,
                                  const PoolSpan& b, const PoolSpan& c,
                                  const float* x, int64_t o,
                                  const MaxPoolTarget& target) {
  const D d;
  const hn::RebindToSigned<D> di;
  Greatest<D, kIndex> greatest(a.start + b.start + c.start);
  ForEachCell(plan, a, b, c, [&](int64_t position) HWY_ATTR {
    greatest.Add(LoadStrided<kStride>(d, x, position, plan.input_size),
                 position);
  });
  hn::StoreU(greatest.best, d, target.y + o);
  if constexpr (kIndex) {
    const auto lane = hn::Mul(hn::Iota(di, 0), hn::Set(di, kStride));
    StoreIndices(di, hn::Add(greatest.best_at, lane), target.index_base,
                 target.index + o);
  }
}

// A plain plane: a vector of D holds neighbours of a row where padding cuts
// nothing off their windows, which are one vector at least.
template <class D, int kStride, bool kIndex>
void MaxPoolRows(const PoolPlan& plan, const float* x,
                 const MaxPoolTarget& target) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const PoolAxis& axis = plan.axes[2];
  const auto count = static_cast<int64_t>(axis.outputs.size());
  int64_t o = 0;
  for (const PoolSpan& a : plan.axes[0].outputs) {
    for (const PoolSpan& b : plan.axes[1].outputs) {
      const bool empty = a.count == 0 || b.count == 0;
      for (int64_t i = 0; i < count;) {
        if (empty || i < axis.whole_first || i >= axis.whole_last) {
          MaxPoolWindow<1, kIndex>(plan, a, b, axis.outputs[i], x, o + i, 1,
                                   target);
          ++i;
          continue;
        }
        // The last vector may compute some outputs a second time.
        i = std::min(i, axis.whole_last - kLanes);
        MaxPoolNeighbours<D, kStride, kIndex>(plan, a, b, axis.outputs[i], x,
                                              o + i, target);
        i += kLanes;
      }
      o += count;
    }
  }
}

// With the vectors that a row fills.
template <int kStride, bool kIndex>
void MaxPoolStrided(const PoolPlan& plan, const float* x,
                    const MaxPoolTarget& target) {
  const int64_t whole = plan.axes[2].whole_last - plan.axes[2].whole_first;
  if (whole >= HWY_LANES(float)) {
    MaxPoolRows<FloatTag, kStride, kIndex>(plan, x, target);
  } else if (whole >= 8) {
    MaxPoolRows<hn::CappedTag<float, 8>, kStride, kIndex>(plan, x, target);
  } else if (whole >= 4) {
    MaxPoolRows<hn::CappedTag<float, 4>, kStride, kIndex>(plan, x, target);
  } else {
    MaxPoolLoop<1, kIndex>(plan, x, 1, target);
  }
}

template <bool kIndex>
void MaxPoolPlain(const PoolPlan& plan, const float* x,
                  const MaxPoolTarget& target) {
  const PoolAxis& axis = plan.axes[2];
  if (axis.stride == 1) return MaxPoolStrided<1, kIndex>(plan, x, target);
  if (axis.stride == 2 && axis.kernel > 1) {
    return MaxPoolStrided<2, kIndex>(plan, x, target);
  }
  MaxPoolLoop<1, kIndex>(plan, x, 1, target);
}
#else
template <bool kIndex>
void MaxPoolPlain(const PoolPlan& plan, const float* x,
                  const MaxPoolTarget& target) {
  MaxPoolLoop<1, kIndex>(plan, x, 1, target);
}
#endif

template <int kBlock>
void MaxPool(const PoolPlan& plan, const float* x, float* y, int64_t* index,
             int64_t index_base, int64_t lanes) {
  const MaxPoolTarget target = {y, index, index_base};
  if constexpr (kBlock == 1) {
    index ? MaxPoolPlain<true>(plan, x, target)
          : MaxPoolPlain<false>(plan, x, target);
  } else {
    index ? MaxPoolLoop<kBlock, true>(plan, x, lanes, target)
          : MaxPoolLoop<kBlock, false>(plan, x, lanes, target);
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
