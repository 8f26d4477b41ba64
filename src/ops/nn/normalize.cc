// SPDX-License-Identifier: Apache-2.0
//
// Normalizations without parameters: LpNormalization, LRN and
// MeanVarianceNormalization.
#include <cmath>

#include "ops/axis.h"
#include "ops/reduce.h"

namespace strop::ops {
namespace {

// --- LpNormalization: x / norm along an axis, 0 where the norm is 0

void InferLpNormalization(InferContext& c) {
  ReadAxis(c.node(), c.input(0).shape, -1);
  const int64_t p = c.node().Int("p", 2);
  if (p != 1 && p != 2) Fail(c.node(), "attribute p is {}, neither 1 nor 2", p);
  SameAsInput(c);
}

template <class T>
void LpNormalization(const KernelContext& c) {
  const AxisSizes s = ReadAxis(c.node(), c.input(0).shape(), -1);
  const bool squares = c.node().Int("p", 2) == 2;
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const auto run_line = [&](int64_t line) {
    const int64_t first = s.Start(line);
    double sum = 0;
    for (int64_t i = 0; i < s.size; ++i) {
      const double value = static_cast<double>(x[first + i * s.inner]);
      sum += squares ? value * value : std::abs(value);
    }
    const double norm = squares ? std::sqrt(sum) : sum;
    for (int64_t i = 0; i < s.size; ++i) {
      const int64_t at = first + i * s.inner;
      y[at] = norm == 0 ? T{0} : static_cast<T>(x[at] / norm);
    }
  };
  c.ParallelFor(s.lines(), 4.0 * static_cast<double>(s.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_line(i);
                });
}

// --- LRN: y = x / (bias + alpha / size * sum of squares)^beta, the sum over
// the channels around

void InferLrn(InferContext& c) {
  if (c.input(0).shape.rank() < 2) {
    Fail(c.node(), "wants batch and channels, not the shape {}",
         c.input(0).shape.ToString());
  }
  const int64_t size = c.node().Int("size");
  if (size < 1) Fail(c.node(), "attribute size is {}", size);
  SameAsInput(c);
}

template <class T>
void Lrn(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const int64_t channels = shape[1];
  const int64_t inner = shape.element_count(2, shape.rank());
  const int64_t size = c.node().Int("size");
  const double beta = c.node().Float("beta", 0.75f);
  const double bias = c.node().Float("bias", 1);
  const double factor =
      c.node().Float("alpha", 0.0001f) / static_cast<double>(size);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const auto run_plane = [&](int64_t plane) {
    const int64_t channel = plane % channels;
    const int64_t first = std::max<int64_t>(0, channel - (size - 1) / 2);
    const int64_t last = std::min(channels - 1, channel + size / 2);
    const T* sample = x + (plane - channel) * inner;
    for (int64_t i = 0; i < inner; ++i) {
      double sum = 0;
      for (int64_t k = first; k <= last; ++k) {
        const double value = static_cast<double>(sample[k * inner + i]);
        sum += value * value;
      }
      const int64_t at = plane * inner + i;
      y[at] = static_cast<T>(x[at] / std::pow(bias + factor * sum, beta));
    }
  };
  const double cost = static_cast<double>(inner) *
                      (20 + static_cast<double>(std::min(size, channels)));
  c.ParallelFor(shape[0] * channels, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_plane(i);
  });
}

// --- MeanVarianceNormalization: y = (x - mean) / (deviation + 1e-9), over
// some axes

AxisSet MeanVarianceAxes(const OpNode& node, size_t rank) {
  constexpr int64_t kDefault[] = {0, 2, 3};
  return NormalizeAxes(
      node, node.Has("axes") ? node.Ints("axes") : std::span(kDefault), rank);
}

void InferMeanVariance(InferContext& c) {
  MeanVarianceAxes(c.node(), c.input(0).shape.rank());
  SameAsInput(c);
}

template <class T>
void MeanVariance(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const ReduceWalk walk(shape, MeanVarianceAxes(c.node(), shape.rank()));
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const double count = static_cast<double>(walk.reduced_count);
  const auto run = [&](int64_t kept) {
    const int64_t first = walk.KeptOffset(kept);
    const auto for_each = [&](auto&& fn) {
      for (int64_t i = 0; i < walk.reduced_count; ++i) {
        fn(first + walk.ReducedOffset(i));
      }
    };
    double mean = 0, squares = 0;
    for_each([&](int64_t at) { mean += static_cast<double>(x[at]); });
    mean /= count;
    for_each([&](int64_t at) {
      const double d = static_cast<double>(x[at]) - mean;
      squares += d * d;
    });
    const double factor = 1 / (std::sqrt(squares / count) + 1e-9);
    for_each([&](int64_t at) {
      y[at] = static_cast<T>((static_cast<double>(x[at]) - mean) * factor);
    });
  };
  c.ParallelFor(shape.element_count() == 0 ? 0 : walk.output_count, 20 * count,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

}  // namespace

extern constexpr OpDef kLpNormalization = {
    .name = "LpNormalization",
    .infer = InferLpNormalization,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LpNormalization<T>(c); })};

extern constexpr OpDef kLrn = {
    .name = "LRN",
    .infer = InferLrn,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Lrn<T>(c); })};

extern constexpr OpDef kMeanVarianceNormalization = {
    .name = "MeanVarianceNormalization",
    .since = 9,
    .infer = InferMeanVariance,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MeanVariance<T>(c); })};

}  // namespace strop::ops
