// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/batch_norm_loops.h"

#include <algorithm>

#include "providers/cpu/simd/fetch_ahead.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/conv/batch_norm_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements that are summed in float32, in a part of the unit that the first
// cache holds.
constexpr int64_t kPart = 4096;

// Calls body(d, first, count, step, lane) for runs of `count` vectors, `step`
// elements apart, that make up the elements [begin, end) of a unit. `lane` is
// the lane of the block in which the vectors begin.
template <int kBlock, class F>
HWY_INLINE void ForEachRun(int64_t begin, int64_t end, F&& body) {
  if constexpr (kBlock == 1) {
    const hn::CappedTag<float, kMostLanes> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t count = (end - begin) / lanes;
    body(d, begin, count, lanes, 0);
    const int64_t rest = begin + count * lanes;
    body(hn::CappedTag<float, 1>(), rest, end - rest, int64_t{1}, 0);
  } else {
    const hn::CappedTag<float, kBlock> d;
    for (int lane = 0; lane < kBlock; lane += static_cast<int>(hn::Lanes(d))) {
      body(d, begin + lane, (end - begin) / kBlock, int64_t{kBlock}, lane);
    }
  }
}

template <int kBlock, class D>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const float* numbers, int lane) {
  if constexpr (kBlock == 1) {
    return hn::Set(d, numbers[0]);
  } else {
    return hn::LoadU(d, numbers + lane);
  }
}

template <int kBlock, class D>
HWY_INLINE void AddLanes(D d, hn::Vec<D> v, double* sums, int lane) {
  HWY_ALIGN float values[kMostLanes];
  hn::Store(v, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    sums[kBlock == 1 ? 0 : static_cast<size_t>(lane) + i] +=
        static_cast<double>(values[i]);
  }
}

// --- Forward

// In two passes over a part: the mean, then what deviates from it.
template <int kBlock>
HWY_INLINE NormMoments PartMoments(const float* x, int64_t begin, int64_t end) {
  NormMoments m = {};
  m.count = static_cast<double>((end - begin) / kBlock);
  double sums[kBlock] = {}, squares[kBlock] = {};
  ForEachRun<kBlock>(
      begin, end,
      [&](auto d, int64_t first, int64_t count, int64_t step,
          int lane) HWY_ATTR {
        auto a = hn::Zero(d), b = a, c = a, e = a;
        const float* from = x + first;
        int64_t i = 0;
        for (; i + 4 <= count; i += 4, from += 4 * step) {
          a = hn::Add(a, hn::LoadU(d, from));
          b = hn::Add(b, hn::LoadU(d, from + step));
          c = hn::Add(c, hn::LoadU(d, from + 2 * step));
          e = hn::Add(e, hn::LoadU(d, from + 3 * step));
        }
        for (; i < count; ++i, from += step) a = hn::Add(a, hn::LoadU(d, from));
        AddLanes<kBlock>(d, hn::Add(hn::Add(a, b), hn::Add(c, e)), sums, lane);
      });
  HWY_ALIGN float center[kBlock < 4 ? 4 : kBlock];
  for (int i = 0; i < kBlock; ++i) {
    center[i] = static_cast<float>(sums[i] / m.count);
    sums[i] = 0;
  }
  ForEachRun<kBlock>(
      begin, end,
      [&](auto d, int64_t first, int64_t count, int64_t step,
          int lane) HWY_ATTR {
        const auto middle = LoadLanes<kBlock>(d, center, lane);
        auto sum0 = hn::Zero(d), sum1 = sum0, square0 = sum0, square1 = sum0;
        const float* from = x + first;
        int64_t i = 0;
        for (; i + 2 <= count; i += 2, from += 2 * step) {
          const auto u = hn::Sub(hn::LoadU(d, from), middle);
          const auto v = hn::Sub(hn::LoadU(d, from + step), middle);
          sum0 = hn::Add(sum0, u);
          sum1 = hn::Add(sum1, v);
          square0 = hn::MulAdd(u, u, square0);
          square1 = hn::MulAdd(v, v, square1);
        }
        if (i < count) {
          const auto u = hn::Sub(hn::LoadU(d, from), middle);
          sum0 = hn::Add(sum0, u);
          square0 = hn::MulAdd(u, u, square0);
        }
        AddLanes<kBlock>(d, hn::Add(sum0, sum1), sums, lane);
        AddLanes<kBlock>(d, hn::Add(square0, square1), squares, lane);
      });
  for (int i = 0; i < kBlock; ++i) {
    const double shift = sums[i] / m.count;  // what rounding left of the mean
    m.mean[i] = static_cast<double>(center[i]) + shift;
    m.square[i] = std::max(0.0, squares[i] - sums[i] * shift);
  }
  return m;
}

template <int kBlock>
NormMoments Moments(const float* x, int64_t positions) {
  NormMoments moments = {};
  const int64_t size = positions * kBlock;
  for (int64_t at = 0; at < size; at += kPart) {
    MergeMoments(moments,
                 PartMoments<kBlock>(x, at, std::min(at + kPart, size)),
                 kBlock);
  }
  return moments;
}

// A NaN stays one.
template <NormActivation kActivation, class D>
HWY_INLINE hn::Vec<D> Activate(D d, hn::Vec<D> z, hn::Vec<D> low,
                               hn::Vec<D> high) {
  if constexpr (kActivation == NormActivation::kRelu) {
    return hn::IfThenZeroElse(hn::Lt(z, hn::Zero(d)), z);
  } else if constexpr (kActivation == NormActivation::kClip) {
    z = hn::IfThenElse(hn::Lt(z, low), low, z);
    return hn::IfThenElse(hn::Gt(z, high), high, z);
  } else {
    return z;
  }
}

template <int kBlock, NormActivation kActivation>
void Apply(const NormUnit& unit, const NormLanes& lanes) {
  ForEachRun<kBlock>(
      0, unit.positions * kBlock,
      [&](auto d, int64_t first, int64_t count, int64_t step,
          int lane) HWY_ATTR {
        const auto center = LoadLanes<kBlock>(d, lanes.center, lane);
        const auto factor = LoadLanes<kBlock>(d, lanes.factor, lane);
        const auto bias = LoadLanes<kBlock>(d, lanes.bias, lane);
        const auto low = hn::Set(d, unit.low);
        const auto high = hn::Set(d, unit.high);
        const int64_t last = first + count * step;
        if (unit.residual) {
          for (int64_t at = first; at < last; at += step) {
            FetchAheadToRead(unit.x + at);
            FetchAheadToWrite(unit.to + at);
            const auto x = hn::LoadU(d, unit.x + at);
            const auto z = hn::Add(hn::MulAdd(hn::Sub(x, center), factor, bias),
                                   hn::LoadU(d, unit.residual + at));
            hn::StoreU(Activate<kActivation>(d, z, low, high), d, unit.to + at);
          }
        } else {
          for (int64_t at = first; at < last; at += step) {
            FetchAheadToRead(unit.x + at);
            FetchAheadToWrite(unit.to + at);
            const auto x = hn::LoadU(d, unit.x + at);
            const auto z = hn::MulAdd(hn::Sub(x, center), factor, bias);
            hn::StoreU(Activate<kActivation>(d, z, low, high), d, unit.to + at);
          }
        }
      });
}

// --- Backward

// dz for the vector at `at`: dy where the activation let z through. Relu's z
// is above zero exactly where y is; without y it is computed again, with the
// same rounding.
template <NormActivation kActivation, bool kFromOutput, class D>
HWY_INLINE hn::Vec<D> GradOfSum(D d, const NormUnit& unit, int64_t at,
                                hn::Vec<D> deviation, hn::Vec<D> factor,
                                hn::Vec<D> bias, hn::Vec<D> low,
                                hn::Vec<D> high) {
  const auto dy = hn::LoadU(d, unit.dy + at);
  if constexpr (kActivation == NormActivation::kNone) {
    return dy;
  } else {
    auto z = bias;
    if constexpr (kFromOutput) {
      z = hn::LoadU(d, unit.y + at);
    } else {
      z = hn::MulAdd(deviation, factor, bias);
    }
    if constexpr (kActivation == NormActivation::kRelu) {
      return hn::IfThenElseZero(hn::Gt(z, hn::Zero(d)), dy);
    } else {
      return hn::IfThenZeroElse(hn::Or(hn::Lt(z, low), hn::Gt(z, high)), dy);
    }
  }
}

template <int kBlock, NormActivation kActivation, bool kFromOutput>
HWY_INLINE void SumPart(const NormUnit& unit, const NormLanes& lanes,
                        int64_t begin, int64_t end, NormSums& sums) {
  ForEachRun<kBlock>(
      begin, end,
      [&](auto d, int64_t first, int64_t count, int64_t step, int lane)
          HWY_ATTR {
            const auto center = LoadLanes<kBlock>(d, lanes.center, lane);
            const auto factor = LoadLanes<kBlock>(d, lanes.factor, lane);
            const auto bias = LoadLanes<kBlock>(d, lanes.bias, lane);
            const auto low = hn::Set(d, unit.low);
            const auto high = hn::Set(d, unit.high);
            auto dz0 = hn::Zero(d), dz1 = dz0, slope0 = dz0, slope1 = dz0;
            const auto add = [&](int64_t at, auto& dz, auto& slope) HWY_ATTR {
              FetchAheadToRead(unit.x + at);
              FetchAheadToRead(unit.dy + at);
              const auto deviation = hn::Sub(hn::LoadU(d, unit.x + at), center);
              const auto g = GradOfSum<kActivation, kFromOutput>(
                  d, unit, at, deviation, factor, bias, low, high);
              if (unit.dz) hn::StoreU(g, d, unit.dz + at);
              dz = hn::Add(dz, g);
              slope = hn::MulAdd(g, deviation, slope);
            };
            int64_t i = 0, at = first;
            for (; i + 2 <= count; i += 2, at += 2 * step) {
              add(at, dz0, slope0);
              add(at + step, dz1, slope1);
            }
            if (i < count) add(at, dz0, slope0);
            AddLanes<kBlock>(d, hn::Add(dz0, dz1), sums.dz, lane);
            AddLanes<kBlock>(d, hn::Add(slope0, slope1), sums.slope, lane);
          });
}

template <int kBlock, NormActivation kActivation>
void Sum(const NormUnit& unit, const NormLanes& lanes, NormSums& sums) {
  const int64_t size = unit.positions * kBlock;
  for (int64_t at = 0; at < size; at += kPart) {
    const int64_t end = std::min(at + kPart, size);
    if (unit.y) {
      SumPart<kBlock, kActivation, true>(unit, lanes, at, end, sums);
    } else {
      SumPart<kBlock, kActivation, false>(unit, lanes, at, end, sums);
    }
  }
}

template <int kBlock, NormActivation kActivation, bool kFromOutput>
HWY_INLINE void GradLoop(const NormUnit& unit, const NormLanes& lanes) {
  ForEachRun<kBlock>(
      0, unit.positions * kBlock,
      [&](auto d, int64_t first, int64_t count, int64_t step,
          int lane) HWY_ATTR {
        const auto center = LoadLanes<kBlock>(d, lanes.center, lane);
        const auto factor = LoadLanes<kBlock>(d, lanes.factor, lane);
        const auto bias = LoadLanes<kBlock>(d, lanes.bias, lane);
        const auto outer = LoadLanes<kBlock>(d, lanes.outer, lane);
        const auto shift = LoadLanes<kBlock>(d, lanes.shift, lane);
        const auto slope = LoadLanes<kBlock>(d, lanes.slope, lane);
        const auto low = hn::Set(d, unit.low);
        const auto high = hn::Set(d, unit.high);
        const int64_t last = first + count * step;
        for (int64_t at = first; at < last; at += step) {
          FetchAheadToRead(unit.x + at);
          FetchAheadToRead(unit.dy + at);
          FetchAheadToWrite(unit.to + at);
          const auto deviation = hn::Sub(hn::LoadU(d, unit.x + at), center);
          const auto g = GradOfSum<kActivation, kFromOutput>(
              d, unit, at, deviation, factor, bias, low, high);
          const auto rest = hn::NegMulAdd(deviation, slope, hn::Sub(g, shift));
          hn::StoreU(hn::Mul(outer, rest), d, unit.to + at);
        }
      });
}

template <int kBlock, NormActivation kActivation>
void Grad(const NormUnit& unit, const NormLanes& lanes) {
  if (unit.dz) {
    NormUnit masked = unit;
    masked.dy = unit.dz;
    GradLoop<kBlock, NormActivation::kNone, false>(masked, lanes);
  } else if (unit.y) {
    GradLoop<kBlock, kActivation, true>(unit, lanes);
  } else {
    GradLoop<kBlock, kActivation, false>(unit, lanes);
  }
}

template <int kBlock, NormActivation kActivation>
NormLoops Loops() {
  return {.moments = Moments<kBlock>,
          .apply = Apply<kBlock, kActivation>,
          .sum = Sum<kBlock, kActivation>,
          .grad = Grad<kBlock, kActivation>};
}

template <int kBlock>
NormLoops LoopsOf(NormActivation activation) {
  switch (activation) {
    case NormActivation::kRelu:
      return Loops<kBlock, NormActivation::kRelu>();
    case NormActivation::kClip:
      return Loops<kBlock, NormActivation::kClip>();
    case NormActivation::kNone:
      break;
  }
  return Loops<kBlock, NormActivation::kNone>();
}

NormLoops SelectNormLoops(Layout layout, NormActivation activation) {
  switch (layout) {
    case Layout::kBlocked8:
      return LoopsOf<8>(activation);
    case Layout::kBlocked16:
      return LoopsOf<16>(activation);
    case Layout::kPlain:
      break;
  }
  return LoopsOf<1>(activation);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {
HWY_EXPORT(SelectNormLoops);
}  // namespace

NormLoops GetNormLoops(Layout layout, NormActivation activation) {
  return HWY_DYNAMIC_DISPATCH(SelectNormLoops)(layout, activation);
}

void MergeMoments(NormMoments& to, const NormMoments& from, int lanes) {
  const double count = to.count + from.count;
  const double share = from.count / count;
  const double weight = to.count * share;
  for (int i = 0; i < lanes; ++i) {
    const double delta = from.mean[i] - to.mean[i];
    to.mean[i] += delta * share;
    to.square[i] += from.square[i] + delta * delta * weight;
  }
  to.count = count;
}

}  // namespace strop
#endif  // HWY_ONCE
