// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/direct_loops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "providers/cpu/conv/output_range.h"
#include "providers/cpu/simd/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/direct_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/conv/unroll-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums that fit into the registers beside two vectors and a broadcast.
constexpr int kSums = kRegisters - 4;
// Positions and terms that a tile may have, whatever the vectors.
constexpr int kMostPositions = 14;
constexpr int kMostTerms = kSums >= 16 ? 8 : 6;

// One vector of a block is worked on at a time; two where a block has one.
template <int kBlock>
struct Lanes {
  using Tag = hn::CappedTag<float, kBlock>;
  using Vec = hn::Vec<Tag>;
  static constexpr int kSize = hn::MaxLanes(Tag());
  static constexpr int kVectors = kBlock / kSize;  // in a block
};

// Ranges of so many outputs stay in the first level cache while all that
// needs them passes by.
constexpr int64_t kRangePositions = 160;

// `positions` outputs of one row for `vectors` vectors of filters, whose
// weights and outputs lie w_step and y_step apart.
template <int kBlock, int kStep, int vectors, int positions>
void ForwardTile(const DirectPlan& plan, const float* x, const float* w,
                 int64_t w_step, const float* bias, int64_t bias_step, float* y,
                 int64_t y_step) {
  const typename Lanes<kBlock>::Tag d;
  typename Lanes<kBlock>::Vec sum[positions][vectors];
  UnrollTimes<vectors>([&](auto v) HWY_ATTR {
    const auto start = bias ? hn::LoadU(d, bias + v * bias_step) : hn::Zero(d);
    UnrollTimes<positions>([&](auto t) HWY_ATTR { sum[t][v] = start; });
  });
  for (const int64_t offset : plan.offsets) {
    const float* from = x + offset;
    typename Lanes<kBlock>::Vec weight[vectors];
    UnrollTimes<vectors>(
        [&](auto v) HWY_ATTR { weight[v] = hn::LoadU(d, w + v * w_step); });
    UnrollTimes<positions>([&](auto t) HWY_ATTR {
      const auto value = hn::Set(d, from[t * kStep]);
      UnrollTimes<vectors>([&](auto v) HWY_ATTR {
        sum[t][v] = hn::MulAdd(value, weight[v], sum[t][v]);
      });
    });
    w += kBlock;
  }
  if (plan.bounds) {
    const auto low = hn::Set(d, plan.bounds->low);
    const auto high = hn::Set(d, plan.bounds->high);
    UnrollTimes<positions>([&](auto t) HWY_ATTR {
      UnrollTimes<vectors>([&](auto v) HWY_ATTR {
        sum[t][v] = ClipKeepingNan(sum[t][v], low, high);
      });
    });
  }
  UnrollTimes<positions>([&](auto t) HWY_ATTR {
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      hn::StoreU(sum[t][v], d, y + t * plan.y_step * kBlock + v * y_step);
    });
  });
}

// The outputs of a range for `vectors` vectors. A row is cut into equal tiles;
// the last one may compute some positions a second time.
template <int kBlock, int kStep, int vectors>
void ForwardVectors(const DirectPlan& plan, const OutputRange& range,
                    const float* x, const float* w, int64_t w_step,
                    const float* bias, int64_t bias_step, float* y,
                    int64_t y_step) {
  constexpr int kMost = std::min(kMostPositions, kSums / vectors);
  const int64_t width = plan.output_w;
  const int64_t tiles = CeilDiv<int64_t>(width, kMost);
  const int64_t positions = CeilDiv(width, tiles);
  y += plan.y_start * kBlock;
  WithConstant<kMost>(static_cast<int>(positions), [&](auto n) HWY_ATTR {
    for (int64_t h = range.h_first; h < range.h_last; ++h) {
      for (int64_t tile = range.Begin(tiles); tile < range.End(tiles); ++tile) {
        const int64_t first = std::min<int64_t>(tile * n, width - n);
        ForwardTile<kBlock, kStep, vectors, n>(
            plan, x + h * plan.x_row + first * kStep, w, w_step, bias,
            bias_step, y + (h * plan.y_row + first * plan.y_step) * kBlock,
            y_step);
      }
    }
  });
}

template <int kBlock, int kStep>
void ForwardRange(const DirectPlan& plan, const OutputRange& range,
                  int64_t first, int64_t last, const float* x, const float* w,
                  const float* bias, float* y) {
  using L = Lanes<kBlock>;
  const int64_t w_block = plan.packed_block();
  const int64_t y_block = plan.y_block();
  for (int64_t b = first; b < last;) {
    const float* w_here = w + b * w_block;
    const float* bias_here = bias ? bias + b * kBlock : nullptr;
    float* y_here = y + b * y_block;
    if constexpr (L::kVectors == 1) {
      if (b + 1 < last) {
        ForwardVectors<kBlock, kStep, 2>(plan, range, x, w_here, w_block,
                                         bias_here, kBlock, y_here, y_block);
        b += 2;
        continue;
      }
      ForwardVectors<kBlock, kStep, 1>(plan, range, x, w_here, 0, bias_here, 0,
                                       y_here, 0);
    } else {
      for (int v = 0; v < kBlock; v += 2 * L::kSize) {
        ForwardVectors<kBlock, kStep, 2>(plan, range, x, w_here + v, L::kSize,
                                         bias_here ? bias_here + v : nullptr,
                                         L::kSize, y_here + v, L::kSize);
      }
    }
    ++b;
  }
}

template <int kBlock, int kStep>
void ForwardBlocks(const DirectPlan& plan, int64_t first, int64_t last,
                   const float* x, const float* w, const float* bias,
                   float* y) {
  ForEachRange(plan, kRangePositions, [&](const OutputRange& range) HWY_ATTR {
    ForwardRange<kBlock, kStep>(plan, range, first, last, x, w, bias, y);
  });
}

template <int kBlock>
void Forward(const DirectPlan& plan, int64_t first, int64_t last,
             const float* x, const float* w, const float* bias, float* y) {
  const auto run = plan.x_layout == Layout::kPlain
                       ? ForwardBlocks<kBlock, 1>
                       : ForwardBlocks<kBlock, kBlock>;
  run(plan, first, last, x, w, bias, y);
}

// dw[term] for `terms` terms and `vectors` vectors of filters, whose weights
// and gradients lie w_step and y_step apart.
template <int kBlock, int kStep, int vectors, int terms>
void WeightsTile(const DirectPlan& plan, const OutputRange& range,
                 const float* x, const int64_t* offsets, const float* dy,
                 int64_t y_step, bool accumulate, float* dw, int64_t w_step) {
  const typename Lanes<kBlock>::Tag d;
  typename Lanes<kBlock>::Vec sum[terms][vectors];
  UnrollTimes<terms>([&](auto t) HWY_ATTR {
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      sum[t][v] =
          accumulate ? hn::LoadU(d, dw + t * kBlock + v * w_step) : hn::Zero(d);
    });
  });
  for (int64_t h = range.h_first; h < range.h_last; ++h) {
    const float* from[terms];
    UnrollTimes<terms>(
        [&](auto t) HWY_ATTR { from[t] = x + h * plan.x_row + offsets[t]; });
    const float* row = dy + h * plan.output_w * kBlock;
    for (int64_t i = range.Begin(plan.output_w), end = range.End(plan.output_w);
         i < end; ++i) {
      typename Lanes<kBlock>::Vec gradient[vectors];
      UnrollTimes<vectors>([&](auto v) HWY_ATTR {
        gradient[v] = hn::LoadU(d, row + i * kBlock + v * y_step);
      });
      UnrollTimes<terms>([&](auto t) HWY_ATTR {
        const auto value = hn::Set(d, from[t][i * kStep]);
        UnrollTimes<vectors>([&](auto v) HWY_ATTR {
          sum[t][v] = hn::MulAdd(value, gradient[v], sum[t][v]);
        });
      });
    }
  }
  UnrollTimes<terms>([&](auto t) HWY_ATTR {
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      hn::StoreU(sum[t][v], d, dw + t * kBlock + v * w_step);
    });
  });
}

// All terms for `vectors` vectors.
template <int kBlock, int kStep, int vectors>
void WeightsVectors(const DirectPlan& plan, const float* x, const float* dy,
                    int64_t y_step, bool accumulate, float* dw,
                    int64_t w_step) {
  ForEachRange(plan, kRangePositions, [&](const OutputRange& range) HWY_ATTR {
    const auto tile = [&](auto terms, int64_t first) HWY_ATTR {
      WeightsTile<kBlock, kStep, vectors, terms>(
          plan, range, x, plan.offsets.data() + first, dy, y_step, accumulate,
          dw + first * kBlock, w_step);
    };
    int64_t t = 0;
    for (; t + kMostTerms <= plan.terms(); t += kMostTerms) {
      tile(std::integral_constant<int, kMostTerms>(), t);
    }
    const int rest = static_cast<int>(plan.terms() - t);
    if (rest > 0) {
      WithConstant<kMostTerms - 1>(rest, [&](auto n) HWY_ATTR { tile(n, t); });
    }
    accumulate = true;
  });
}

template <int kBlock, int kStep>
void WeightsBlocks(const DirectPlan& plan, int64_t first, int64_t last,
                   const float* x, const float* dy, bool accumulate,
                   float* dw) {
  using L = Lanes<kBlock>;
  const int64_t w_block = plan.packed_block();
  const int64_t y_block = plan.y_block();
  for (int64_t b = first; b < last;) {
    const float* dy_here = dy + b * y_block;
    float* dw_here = dw + b * w_block;
    if constexpr (L::kVectors == 1) {
      if (b + 1 < last) {
        WeightsVectors<kBlock, kStep, 2>(plan, x, dy_here, y_block, accumulate,
                                         dw_here, w_block);
        b += 2;
        continue;
      }
      WeightsVectors<kBlock, kStep, 1>(plan, x, dy_here, 0, accumulate, dw_here,
                                       0);
    } else {
      for (int v = 0; v < kBlock; v += 2 * L::kSize) {
        WeightsVectors<kBlock, kStep, 2>(plan, x, dy_here + v, L::kSize,
                                         accumulate, dw_here + v, L::kSize);
      }
    }
    ++b;
  }
}

template <int kBlock>
void Weights(const DirectPlan& plan, int64_t first, int64_t last,
             const float* x, const float* dy, bool accumulate, float* dw) {
  const auto run = plan.x_layout == Layout::kPlain
                       ? WeightsBlocks<kBlock, 1>
                       : WeightsBlocks<kBlock, kBlock>;
  run(plan, first, last, x, dy, accumulate, dw);
}

DirectForwardFunction SelectDirectForward(Layout layout) {
  return layout == Layout::kBlocked16 ? Forward<16> : Forward<8>;
}

DirectWeightsFunction SelectDirectWeights(Layout layout) {
  return layout == Layout::kBlocked16 ? Weights<16> : Weights<8>;
}

Layout SelectDirectLayout() {
  return HWY_LANES(float) >= 16 ? Layout::kBlocked16 : Layout::kBlocked8;
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(SelectDirectForward);
HWY_EXPORT(SelectDirectWeights);
HWY_EXPORT(SelectDirectLayout);
}  // namespace

DirectForwardFunction GetDirectForward(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectDirectForward)(layout);
}

DirectWeightsFunction GetDirectWeights(Layout layout) {
  return HWY_DYNAMIC_DISPATCH(SelectDirectWeights)(layout);
}

Layout GetDirectLayout() { return HWY_DYNAMIC_DISPATCH(SelectDirectLayout)(); }

namespace {

// to[i] = from[i * step], each of `block` floats.
template <int64_t block>
void CopyEach(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) {
    std::copy_n(from, count * block, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(from + i * step * block, block, to + i * block);
  }
}

// The columns of a padded row that lie side by side from one of `lanes`
// channels' worth of a row of the image.
void PadColumns(const ImagePadding& p, int64_t lanes, const float* from,
                int64_t step, int64_t count, float* to) {
  if (p.padded_layout != p.layout) {
    TransposeMatrix(from, step * BlockSize(p.layout), count, lanes, to,
                    p.plane());
    return;
  }
  switch (p.layout) {
    case Layout::kBlocked16:
      return CopyEach<16>(from, step, count, to);
    case Layout::kBlocked8:
      return CopyEach<8>(from, step, count, to);
    default:
      return CopyEach<1>(from, step, count, to);
  }
}

// One padded row of one block of channels, of which `lanes` are there, from a
// row of the image.
void PadRow(const ImagePadding& p, const AxisRange& columns, int64_t lanes,
            const float* from, float* to) {
  const int64_t block = BlockSize(p.layout);
  const int64_t to_block = BlockSize(p.padded_layout);
  for (int64_t phase = 0; phase < p.phases; ++phase) {
    const auto index = [&](int64_t w) {  // of the first one that is not before
      if (p.phases == 1) return w;
      return w > phase ? CeilDiv(w - phase, p.phases) : 0;
    };
    const int64_t first = index(columns.first), last = index(columns.last);
    const int64_t w = first * p.phases + phase;
    PadColumns(p, lanes, from + (w * p.read_w - p.begin_w) * block,
               p.phases * p.read_w, last - first,
               to + (phase * p.phase_w() + first) * to_block);
  }
}

void PadImage(const ImagePadding& p, const float* image, float* padded) {
  const AxisRange rows(p.height, p.begin_h, p.read_h, p.padded_h);
  const AxisRange columns(p.width, p.begin_w, p.read_w, p.padded_w);
  const bool covers = columns.first == 0 && columns.last == p.padded_w;
  const int64_t block = BlockSize(p.layout);
  const int64_t to_block = BlockSize(p.padded_layout);
  const int64_t row = p.row(), plane = p.plane();
  // Small planes are cleared as a whole, as that is quicker than row by row.
  constexpr int64_t kSmallPlane = 2048;
  const bool clear_planes =
      plane <= kSmallPlane &&
      !(covers && rows.first == 0 && rows.last == p.padded_h);
  for (int64_t start = 0; start < p.channels; start += block) {
    const int64_t lanes = std::min(block, p.channels - start);
    const int64_t planes = CeilDiv(lanes, to_block);
    const float* from = image + start * p.height * p.width;
    float* to = padded + start / to_block * plane;
    if (clear_planes) std::fill_n(to, planes * plane, 0.0f);
    for (int64_t h = 0; h < p.padded_h; ++h, to += row) {
      const bool inside = h >= rows.first && h < rows.last;
      if (!clear_planes && (!inside || !covers)) {
        for (int64_t i = 0; i < planes; ++i) {
          std::fill_n(to + i * plane, row, 0.0f);
        }
      }
      if (!inside) continue;
      PadRow(p, columns, lanes,
             from + (h * p.read_h - p.begin_h) * p.width * block, to);
    }
  }
}

}  // namespace

void PadImages(const ImagePadding& padding, const float* images, int64_t count,
               float* padded) {
  for (int64_t i = 0; i < count; ++i) {
    PadImage(padding, images + i * padding.stored_count(),
             padded + i * padding.padded_count());
  }
}

}  // namespace strop
#endif  // HWY_ONCE
