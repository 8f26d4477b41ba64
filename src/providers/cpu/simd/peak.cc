// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/simd/peak.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/peak.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Independent sums: more than latency times issue width of any processor,
// fewer than registers.
constexpr int kSums = 12;

// Does kSums multiplications and additions of vectors `rounds` times, and
// returns how many operations on floats that is. `sink` takes the sum, so that
// nothing is left out.
double MultiplyAdd(int rounds, float* sink) {
  const FloatTag d;
  FloatVec sums[kSums];
  for (int i = 0; i < kSums; ++i) {
    sums[i] = hn::Set(d, static_cast<float>(i));
  }
  const FloatVec a = hn::Set(d, *sink);
  const FloatVec b = hn::Set(d, 1e-3f);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], a, b);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  return 2.0 * kSums * static_cast<double>(hn::Lanes(d)) * rounds;
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(MultiplyAdd);

}  // namespace

double MeasurePeakFlops() {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 100'000;
  constexpr int kTries = 20;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    volatile float start = 0.5f;  // not known to the compiler
    float sink = start;
    const Clock::time_point begin = Clock::now();
    const double operations = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(kRounds, &sink);
    const std::chrono::duration<double> time = Clock::now() - begin;
    start = sink;
    best = std::max(best, operations / std::max(time.count(), 1e-9));
  }
  return best;
}

}  // namespace strop
#endif  // HWY_ONCE
