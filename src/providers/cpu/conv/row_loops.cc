// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/row_loops.h"

#include <algorithm>
#include <type_traits>

#include "base/round.h"
#include "providers/cpu/conv/output_range.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/row_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/conv/unroll-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = hn::MaxLanes(FloatTag());
// What a tile has at most, whatever the registers hold.
constexpr int kMostFilters = 6;
constexpr int kMostVectors = 4;  // of outputs
constexpr int kMostTerms = 8;

// How many vectors may stay in registers while those of `filters` filters
// pass by, so that the sums of all pairs do too.
constexpr int Fitting(int filters) { return (kRegisters - 1) / (filters + 1); }

// Calls body(n, first) for tiles of nearly equal size n, a constant of at most
// `most`, that cover [first, last).
template <int most, class F>
HWY_INLINE void ForEachTile(int64_t first, int64_t last, F&& body) {
  if (first >= last) return;
  const int64_t tiles = CeilDiv<int64_t>(last - first, most);
  const int64_t size = (last - first) / tiles;
  int64_t larger = (last - first) % tiles;
  while (first < last) {
    const int64_t n = size + (larger-- > 0);
    WithConstant<most>(static_cast<int>(n),
                       [&](auto count) HWY_ATTR { body(count, first); });
    first += n;
  }
}

// A row of outputs is cut into vectors. The last one lies at the row's end and
// may compute some a second time. A row that is shorter than a vector is one,
// of which only the first lanes count.
struct RowCut {
  explicit RowCut(const DirectPlan& plan)
      : width(plan.output_w), vectors(CeilDiv(width, kLanes)) {}
  int64_t Column(int64_t vector) const {
    return std::max<int64_t>(0, std::min(vector * kLanes, width - kLanes));
  }
  int64_t width, vectors;
};

// `vectors` vectors of outputs for `filters` filters. They are numbered image
// by image, then along the rows.
template <int filters, int vectors>
void ForwardTile(const DirectPlan& plan, const RowCut& cut,
                 const RowImages& images, int64_t first, const float* w,
                 const float* bias, int64_t first_filter) {
  const FloatTag d;
  const float* from[vectors];
  float* to[vectors];
  int64_t h = 0;
  int64_t place = first / images.count, image = first % images.count;
  const int64_t row = place / cut.vectors;
  for (int v = 0; v < vectors; ++v) {
    h = place / cut.vectors;
    const int64_t column = cut.Column(place % cut.vectors);
    from[v] = images.x + image * images.x_step + h * plan.x_row + column;
    to[v] = images.y + image * images.y_step + plan.y_start + h * plan.y_row +
            column + first_filter * plan.y_size;
    if (++image == images.count) ++place, image = 0;
  }
  FloatVec sum[filters][vectors];
  UnrollTimes<filters>([&](auto m) HWY_ATTR {
    const auto start = hn::Set(d, bias ? bias[m] : 0.0f);
    UnrollTimes<vectors>([&](auto v) HWY_ATTR { sum[m][v] = start; });
  });
  const int64_t* offsets = plan.offsets.data();
  const TermRange terms = plan.TermsOfRows(row, h);
  for (int64_t t = terms.first; t < terms.last; ++t) {
    FloatVec value[vectors];
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      value[v] = hn::LoadU(d, from[v] + offsets[t]);
    });
    UnrollTimes<filters>([&](auto m) HWY_ATTR {
      const auto weight = hn::Set(d, w[m * plan.terms() + t]);
      UnrollTimes<vectors>([&](auto v) HWY_ATTR {
        sum[m][v] = hn::MulAdd(value[v], weight, sum[m][v]);
      });
    });
  }
  if (plan.bounds) {
    const auto low = hn::Set(d, plan.bounds->low);
    const auto high = hn::Set(d, plan.bounds->high);
    UnrollTimes<filters>([&](auto m) HWY_ATTR {
      UnrollTimes<vectors>([&](auto v) HWY_ATTR {
        sum[m][v] = ClipKeepingNan(sum[m][v], low, high);
      });
    });
  }
  const bool is_short = cut.width < kLanes;
  UnrollTimes<filters>([&](auto m) HWY_ATTR {
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      float* target = to[v] + m * plan.y_size;
      if (is_short) {
        StoreTail(sum[m][v], d, target, static_cast<size_t>(cut.width));
      } else {
        hn::StoreU(sum[m][v], d, target);
      }
    });
  });
}

// Images whose rows stay in the first level cache until the kernel has passed.
void ForwardImages(const DirectPlan& plan, int64_t first, int64_t last,
                   const RowImages& images, const float* w, const float* bias) {
  const RowCut cut(plan);
  const int64_t all = plan.output_h * cut.vectors * images.count;
  ForEachTile<kMostFilters>(first, last, [&](auto filters, int64_t m) HWY_ATTR {
    constexpr int kMost = std::min(kMostVectors, Fitting(filters));
    ForEachTile<kMost>(0, all, [&](auto vectors, int64_t v) HWY_ATTR {
      ForwardTile<filters, vectors>(plan, cut, images, v, w + m * plan.terms(),
                                    bias ? bias + m : nullptr, m);
    });
  });
}

void Forward(const DirectPlan& plan, int64_t first, int64_t last,
             const RowImages& images, const float* w, const float* bias) {
  for (int64_t i = 0; i < images.count; i += kMostVectors) {
    RowImages some = images;
    some.count = std::min<int64_t>(kMostVectors, images.count - i);
    some.x += i * images.x_step;
    some.y += i * images.y_step;
    ForwardImages(plan, first, last, some, w, bias);
  }
}

// sum[m][t] += x[t] * gradient of filter m, both as `load` gets them from their
// addresses.
template <int filters, int terms, class Load>
HWY_INLINE void AddProducts(const float* const (&x)[terms], int64_t column,
                            const float* dy, int64_t dy_step, Load load,
                            FloatVec (&sum)[filters][terms]) {
  FloatVec value[terms];
  UnrollTimes<terms>([&](auto t) HWY_ATTR { value[t] = load(x[t] + column); });
  UnrollTimes<filters>([&](auto m) HWY_ATTR {
    const auto gradient = load(dy + m * dy_step + column);
    UnrollTimes<terms>([&](auto t) HWY_ATTR {
      sum[m][t] = hn::MulAdd(value[t], gradient, sum[m][t]);
    });
  });
}

// dw[filter][term] for `filters` filters and `terms` terms, as vectors.
template <int filters, int terms>
void WeightsTile(const DirectPlan& plan, const OutputRange& range,
                 const float* x, const int64_t* offsets, const float* dy,
                 bool accumulate, float* dw) {
  const FloatTag d;
  FloatVec sum[filters][terms];
  UnrollTimes<filters>([&](auto m) HWY_ATTR {
    UnrollTimes<terms>([&](auto t) HWY_ATTR {
      const float* from = dw + (m * plan.terms() + t) * kLanes;
      sum[m][t] = accumulate ? hn::LoadU(d, from) : hn::Zero(d);
    });
  });
  const int64_t first = range.Begin(plan.output_w);
  const int64_t last = range.End(plan.output_w);
  const int64_t rest = (last - first) % kLanes;
  const auto is_rest =
      hn::Not(hn::FirstN(d, static_cast<size_t>(kLanes - rest)));
  for (int64_t h = range.h_first; h < range.h_last; ++h) {
    const float* row = dy + h * plan.y_row;
    const float* from[terms];
    UnrollTimes<terms>(
        [&](auto t) HWY_ATTR { from[t] = x + h * plan.x_row + offsets[t]; });
    if (last - first < kLanes) {  // a short row
      const auto load = [&](const float* p) HWY_ATTR {
        return LoadTail(d, p, static_cast<size_t>(rest));
      };
      AddProducts<filters, terms>(from, first, row, plan.y_size, load, sum);
      continue;
    }
    for (int64_t i = first; i + kLanes <= last; i += kLanes) {
      const auto load = [&](const float* p)
                            HWY_ATTR { return hn::LoadU(d, p); };
      AddProducts<filters, terms>(from, i, row, plan.y_size, load, sum);
    }
    if (rest > 0) {
      const auto load = [&](const float* p) HWY_ATTR {
        return hn::IfThenElseZero(is_rest, hn::LoadU(d, p));
      };
      AddProducts<filters, terms>(from, last - kLanes, row, plan.y_size, load,
                                  sum);
    }
  }
  UnrollTimes<filters>([&](auto m) HWY_ATTR {
    UnrollTimes<terms>([&](auto t) HWY_ATTR {
      hn::StoreU(sum[m][t], d, dw + (m * plan.terms() + t) * kLanes);
    });
  });
}

template <int filters>
void WeightsFilters(const DirectPlan& plan, const float* x, const float* dy,
                    bool accumulate, float* dw) {
  // The gradients of so many positions stay in the first level cache while
  // all terms pass by.
  constexpr int64_t kPositions = 5 * 1024 / filters;
  constexpr int kMost = std::min(kMostTerms, Fitting(filters));
  ForEachRange(plan, kPositions, [&](const OutputRange& range) HWY_ATTR {
    ForEachTile<kMost>(0, plan.terms(), [&](auto terms, int64_t t) HWY_ATTR {
      WeightsTile<filters, terms>(plan, range, x, plan.offsets.data() + t, dy,
                                  accumulate, dw + t * kLanes);
    });
    accumulate = true;
  });
}

void Weights(const DirectPlan& plan, int64_t first, int64_t last,
             const float* x, const float* dy, bool accumulate, float* dw) {
  ForEachTile<kMostFilters>(first, last, [&](auto filters, int64_t m) HWY_ATTR {
    WeightsFilters<filters>(plan, x, dy + m * plan.y_size, accumulate,
                            dw + m * plan.terms() * kLanes);
  });
}

RowForwardFunction SelectRowForward() { return Forward; }

DirectWeightsFunction SelectRowWeights() { return Weights; }

int64_t RowLanes() { return kLanes; }

void FoldLanes(const float* wide, int64_t count, float* sums) {
  const FloatTag d;
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, wide + i * kLanes)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(SelectRowForward);
HWY_EXPORT(SelectRowWeights);
HWY_EXPORT(RowLanes);
HWY_EXPORT(FoldLanes);
}  // namespace

RowForwardFunction GetRowForward() {
  return HWY_DYNAMIC_DISPATCH(SelectRowForward)();
}

DirectWeightsFunction GetRowWeights() {
  return HWY_DYNAMIC_DISPATCH(SelectRowWeights)();
}

int64_t GetRowLanes() { return HWY_DYNAMIC_DISPATCH(RowLanes)(); }

void FoldRowLanes(const float* wide, int64_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(FoldLanes)(wide, count, sums);
}

}  // namespace strop
#endif  // HWY_ONCE
