// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/direct_loops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

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
#if STROP_AVX512 || HWY_TARGET == HWY_NEON
constexpr int kSums = 24;
#else
constexpr int kSums = 12;
#endif

// Calls f(std::integral_constant<int, n>()) for n in [1, most].
template <int most, class F>
HWY_INLINE void WithConstant(int n, F&& f) {
  if constexpr (most > 1) {
    if (n < most) return WithConstant<most - 1>(n, f);
  }
  f(std::integral_constant<int, most>());
}

// One vector of a block is worked on at a time; two where a block has one.
template <int kBlock>
struct Lanes {
  using Tag = hn::CappedTag<float, kBlock>;
  using Vec = hn::Vec<Tag>;
  static constexpr int kSize = hn::MaxLanes(Tag());
  static constexpr int kVectors = kBlock / kSize;  // in a block
};

// `positions` outputs of one row for `vectors` vectors of filters, whose
// weights and outputs lie w_step and y_step apart.
template <int kBlock, int vectors, int positions>
void ForwardTile(const DirectPlan& plan, const float* x, const float* w,
                 int64_t w_step, const float* bias, int64_t bias_step, float* y,
                 int64_t y_step) {
  const typename Lanes<kBlock>::Tag d;
  typename Lanes<kBlock>::Vec sum[positions][vectors];
  UnrollTimes<vectors>([&](auto v) HWY_ATTR {
    const auto start = bias ? hn::LoadU(d, bias + v * bias_step) : hn::Zero(d);
    UnrollTimes<positions>([&](auto t) HWY_ATTR { sum[t][v] = start; });
  });
  const int64_t stride = plan.stride_w;
  for (const int64_t offset : plan.row_offsets) {
    const float* row = x + offset;
    for (int64_t k = 0; k < plan.kernel_w; ++k) {
      typename Lanes<kBlock>::Vec weight[vectors];
      UnrollTimes<vectors>(
          [&](auto v) HWY_ATTR { weight[v] = hn::LoadU(d, w + v * w_step); });
      UnrollTimes<positions>([&](auto t) HWY_ATTR {
        const auto value = hn::Set(d, row[t * stride]);
        UnrollTimes<vectors>([&](auto v) HWY_ATTR {
          sum[t][v] = hn::MulAdd(value, weight[v], sum[t][v]);
        });
      });
      w += kBlock;
      row += plan.dilation_w;
    }
  }
  UnrollTimes<positions>([&](auto t) HWY_ATTR {
    UnrollTimes<vectors>([&](auto v) HWY_ATTR {
      hn::StoreU(sum[t][v], d, y + t * kBlock + v * y_step);
    });
  });
}

// All outputs for `vectors` vectors. A row is cut into equal tiles; the last
// one may compute some positions a second time.
template <int kBlock, int vectors>
void ForwardVectors(const DirectPlan& plan, const float* x, const float* w,
                    int64_t w_step, const float* bias, int64_t bias_step,
                    float* y, int64_t y_step) {
  constexpr int kMost = kSums / vectors;
  const int64_t width = plan.output_w;
  const int64_t tiles = CeilDiv<int64_t>(width, kMost);
  const int64_t positions = CeilDiv(width, tiles);
  WithConstant<kMost>(static_cast<int>(positions), [&](auto n) HWY_ATTR {
    for (int64_t h = 0; h < plan.output_h; ++h) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t first = std::min<int64_t>(tile * n, width - n);
        ForwardTile<kBlock, vectors, n>(
            plan, x + h * plan.stride_h * plan.padded_w + first * plan.stride_w,
            w, w_step, bias, bias_step, y + (h * width + first) * kBlock,
            y_step);
      }
    }
  });
}

template <int kBlock>
void Forward(const DirectPlan& plan, int64_t first, int64_t last,
             const float* x, const float* w, const float* bias, float* y) {
  using L = Lanes<kBlock>;
  const int64_t w_block = plan.packed_block();
  const int64_t y_block = plan.output_size() * kBlock;
  for (int64_t b = first; b < last;) {
    const float* w_here = w + b * w_block;
    const float* bias_here = bias ? bias + b * kBlock : nullptr;
    float* y_here = y + b * y_block;
    if constexpr (L::kVectors == 1) {
      if (b + 1 < last) {
        ForwardVectors<kBlock, 2>(plan, x, w_here, w_block, bias_here, kBlock,
                                  y_here, y_block);
        b += 2;
        continue;
      }
      ForwardVectors<kBlock, 1>(plan, x, w_here, 0, bias_here, 0, y_here, 0);
    } else {
      for (int v = 0; v < kBlock; v += 2 * L::kSize) {
        ForwardVectors<kBlock, 2>(plan, x, w_here + v, L::kSize,
                                  bias_here ? bias_here + v : nullptr, L::kSize,
                                  y_here + v, L::kSize);
      }
    }
    ++b;
  }
}

// dw[row][tap] for `rows` rows and one vector of filters.
template <int kBlock, int rows, int taps>
void WeightsTile(const DirectPlan& plan, const float* x, const int64_t* offsets,
                 const float* dy, bool accumulate, float* dw) {
  const typename Lanes<kBlock>::Tag d;
  typename Lanes<kBlock>::Vec sum[rows][taps];
  UnrollTimes<rows>([&](auto r) HWY_ATTR {
    UnrollTimes<taps>([&](auto k) HWY_ATTR {
      sum[r][k] =
          accumulate ? hn::LoadU(d, dw + (r * taps + k) * kBlock) : hn::Zero(d);
    });
  });
  for (int64_t h = 0; h < plan.output_h; ++h) {
    const float* row[rows];
    UnrollTimes<rows>([&](auto r) HWY_ATTR {
      row[r] = x + offsets[r] + h * plan.stride_h * plan.padded_w;
    });
    for (int64_t i = 0; i < plan.output_w; ++i) {
      const auto gradient = hn::LoadU(d, dy);
      dy += kBlock;
      UnrollTimes<rows>([&](auto r) HWY_ATTR {
        UnrollTimes<taps>([&](auto k) HWY_ATTR {
          const auto value = hn::Set(d, row[r][k * plan.dilation_w]);
          sum[r][k] = hn::MulAdd(value, gradient, sum[r][k]);
        });
        row[r] += plan.stride_w;
      });
    }
  }
  UnrollTimes<rows>([&](auto r) HWY_ATTR {
    UnrollTimes<taps>([&](auto k) HWY_ATTR {
      hn::StoreU(sum[r][k], d, dw + (r * taps + k) * kBlock);
    });
  });
}

template <int kBlock, int taps>
void WeightsOfBlock(const DirectPlan& plan, const float* x, const float* dy,
                    bool accumulate, float* dw) {
  constexpr int kRows = std::min(8, kSums / taps);
  const int64_t rows = plan.rows();
  for (int64_t r = 0; r < rows;) {
    const int64_t* offsets = plan.row_offsets.data() + r;
    float* to = dw + r * taps * kBlock;
    if (r + kRows <= rows) {
      WeightsTile<kBlock, kRows, taps>(plan, x, offsets, dy, accumulate, to);
      r += kRows;
    } else {
      WeightsTile<kBlock, 1, taps>(plan, x, offsets, dy, accumulate, to);
      ++r;
    }
  }
}

template <int kBlock>
void Weights(const DirectPlan& plan, const float* x, const float* dy,
             bool accumulate, float* dw) {
  WithConstant<static_cast<int>(kMaxDirectTaps)>(
      static_cast<int>(plan.kernel_w), [&](auto taps) HWY_ATTR {
        for (int64_t b = 0; b < plan.blocks(); ++b) {
          for (int v = 0; v < kBlock; v += Lanes<kBlock>::kSize) {
            WeightsOfBlock<kBlock, taps>(
                plan, x, dy + b * plan.output_size() * kBlock + v, accumulate,
                dw + b * plan.packed_block() + v);
          }
        }
      });
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

void FinishPlan(DirectPlan& plan) {
  plan.row_offsets.clear();
  for (int64_t c = 0; c < plan.channels; ++c) {
    for (int64_t k = 0; k < plan.kernel_h; ++k) {
      plan.row_offsets.push_back((c * plan.padded_h + k * plan.dilation_h) *
                                 plan.padded_w);
    }
  }
}

namespace {

// The rows or columns of an image that lie inside of the padded one.
void InsideRange(int64_t size, int64_t begin, int64_t step, int64_t padded,
                 int64_t* first, int64_t* last) {
  *first = begin >= 0 ? 0 : std::min(size, CeilDiv(-begin, step));
  *last = begin >= padded
              ? *first
              : std::clamp(CeilDiv(padded - begin, step), *first, size);
}

}  // namespace

void PadImage(const ImagePadding& p, const float* image, float* padded) {
  const bool covers = p.begin_h <= 0 && p.begin_w <= 0 && p.step_h == 1 &&
                      p.step_w == 1 && p.begin_h + p.height >= p.padded_h &&
                      p.begin_w + p.width >= p.padded_w;
  if (!covers) {
    std::fill_n(padded, p.channels * p.padded_h * p.padded_w, 0.0f);
  }
  int64_t h_first, h_last, w_first, w_last;
  InsideRange(p.height, p.begin_h, p.step_h, p.padded_h, &h_first, &h_last);
  InsideRange(p.width, p.begin_w, p.step_w, p.padded_w, &w_first, &w_last);
  const int64_t block = BlockSize(p.layout);
  const int64_t plane = p.padded_h * p.padded_w;
  for (int64_t start = 0; start < p.channels; start += block) {
    const int64_t lanes = std::min(block, p.channels - start);
    for (int64_t h = h_first; h < h_last; ++h) {
      const float* from =
          image + start * p.height * p.width + h * p.width * block;
      float* to = padded + start * plane +
                  (h * p.step_h + p.begin_h) * p.padded_w + p.begin_w;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        for (int64_t w = w_first; w < w_last; ++w) {
          to[lane * plane + w * p.step_w] = from[w * block + lane];
        }
      }
    }
  }
}

}  // namespace strop
#endif  // HWY_ONCE
