// SPDX-License-Identifier: Apache-2.0
//
// Normalizations without parameters: LpNormalization, LRN with its gradient,
// and MeanVarianceNormalization.
#include <cmath>

#include "ops/axis.h"
#include "ops/gradient.h"
#include "ops/reduce.h"
#include "strop/execution_provider.h"

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

// The channels in the window of each channel are `before` it up to `after`
// it.
struct LrnSettings {
  int64_t channels, inner, before, after;
  double beta, bias, factor;

  LrnSettings(const OpNode& node, const Shape& shape)
      : channels(shape[1]), inner(shape.element_count(2, shape.rank())) {
    const int64_t size = node.Int("size");
    before = (size - 1) / 2;
    after = size / 2;
    beta = node.Float("beta", 0.75f);
    bias = node.Float("bias", 1);
    factor = node.Float("alpha", 0.0001f) / static_cast<double>(size);
  }

  // The sum of value(k) over channels [channel - low, channel + high].
  template <class F>
  double Sum(int64_t channel, int64_t low, int64_t high, F&& value) const {
    const int64_t first = std::max<int64_t>(0, channel - low);
    const int64_t last = std::min(channels - 1, channel + high);
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) sum += value(k);
    return sum;
  }

  // bias + alpha / size * sum of squares, at position i of a channel of the
  // sample.
  template <class T>
  double Divisor(const T* sample, int64_t channel, int64_t i) const {
    return bias + factor * Sum(channel, before, after, [&](int64_t k) {
                    const double value =
                        static_cast<double>(sample[k * inner + i]);
                    return value * value;
                  });
  }

  // Calls run(channel, i, element) for all elements.
  template <class F>
  void ForEach(const KernelContext& c, int64_t batch, F&& run) const {
    const double window =
        static_cast<double>(std::min(before + after + 1, channels));
    c.ParallelFor(batch * channels, static_cast<double>(inner) * (20 + window),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t plane = begin; plane < end; ++plane)
                      for (int64_t i = 0; i < inner; ++i)
                        run(plane % channels, i, plane * inner + i);
                  });
  }
};

template <class T>
void Lrn(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const LrnSettings s(c.node(), shape);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  s.ForEach(c, shape[0], [&](int64_t channel, int64_t i, int64_t at) {
    const T* sample = x + at - channel * s.inner - i;
    y[at] =
        static_cast<T>(x[at] / std::pow(s.Divisor(sample, channel, i), s.beta));
  });
}

void InferLrnGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  InferLrn(c);
}

// With d what x is divided by, to the power beta, and q = dy x d^(-beta - 1):
// dx = dy d^-beta - 2 alpha beta / size x sum(q), the sum over those channels
// that have this one in their window.
template <class T>
void LrnGrad(const KernelContext& c) {
  const Shape& shape = c.input(1).shape();
  const LrnSettings s(c.node(), shape);
  const T* dy = c.in<T>(0).data();
  const T* x = c.in<T>(1).data();
  T* dx = c.out<T>(0).data();
  auto* q = reinterpret_cast<double*>(c.scratch());
  s.ForEach(c, shape[0], [&](int64_t channel, int64_t i, int64_t at) {
    const T* sample = x + at - channel * s.inner - i;
    const double divisor = s.Divisor(sample, channel, i);
    const double slope = dy[at] * std::pow(divisor, -s.beta);
    dx[at] = static_cast<T>(slope);
    q[at] = slope * x[at] / divisor;
  });
  s.ForEach(c, shape[0], [&](int64_t channel, int64_t i, int64_t at) {
    const double* sample = q + at - channel * s.inner - i;
    const double sum = s.Sum(channel, s.after, s.before, [&](int64_t k) {
      return sample[k * s.inner + i];
    });
    dx[at] -= static_cast<T>(2 * s.factor * s.beta * x[at] * sum);
  });
}

size_t LrnGradScratch(const KernelRequest& r) {
  return static_cast<size_t>(r.outputs[0].shape.element_count()) *
         sizeof(double);
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

// --- Gradients

// Values of lines without a norm get no gradient.
Var WhereNotZero(Var divisor, Var value) {
  GraphBuilder& b = *divisor.builder;
  const Var zero = b.Scalar(0, b.type(divisor));
  return b.Where(b.Compare("Equal", divisor, zero), zero, value);
}

// p = 1: dx = (dy - sign(x) sum(dy y)) / norm
// p = 2: dx = (dy - y sum(dy y)) / norm
void LpNormalizationGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const std::vector<int64_t> axis = {c.node().Int("axis", -1)};
  const bool squares = c.node().Int("p", 2) == 2;
  const Var x = c.x(), dy = c.dy();
  const Var norm =
      squares ? b.Op("Sqrt", {b.ReduceSum(x * x, axis, /*keepdims=*/true)})
              : b.ReduceSum(b.Op("Abs", {x}), axis, /*keepdims=*/true);
  const Var along = b.ReduceSum(dy * c.y(), axis, /*keepdims=*/true);
  const Var direction = squares ? c.y() : b.Op("Sign", {x});
  c.Set(0, WhereNotZero(norm, (dy - direction * along) / norm));
}

void LrnGradient(GradientContext& c) {
  c.Set(0, c.build().Op("LRNGrad", {c.dy(), c.x()}, c.attributes(), kStrop));
}

// With s = sqrt(variance): dx = (dy - mean(dy)) / (s + 1e-9) -
// y mean(dy y) / s. Works in float32 for 16-bit types, as the op does.
void MeanVarianceGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  std::vector<int64_t> axes = {0, 2, 3};
  if (c.node().Has("axes"))
    axes.assign(c.node().Ints("axes").begin(), c.node().Ints("axes").end());
  const DataType type = b.type(c.x());
  const DataType wide = AtLeastFloat32(type);
  const auto size = [&](Var v) {
    return b.Cast(b.Op("Size", {v}, {}, kOnnx, DataType::kInt64), wide);
  };
  const auto mean = [&](Var v) {
    // No axes at all leave everything as it is.
    if (axes.empty()) return v;
    const Var sum = b.ReduceSum(v, axes, /*keepdims=*/true);
    return sum * (size(sum) / size(v));
  };
  const Var x = b.Cast(c.x(), wide), dy = b.Cast(c.dy(), wide);
  const Var centered = x - mean(x);
  const Var deviation = b.Op("Sqrt", {mean(centered * centered)});
  const Var y = centered / (deviation + 1e-9);
  const Var along = WhereNotZero(deviation, y * (mean(dy * y) / deviation));
  c.Set(0, b.Cast((dy - mean(dy)) / (deviation + 1e-9) - along, type));
}

}  // namespace

extern constexpr OpDef kLpNormalization = {
    .name = "LpNormalization",
    .infer = InferLpNormalization,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LpNormalization<T>(c); }),
    .gradient = Rule(LpNormalizationGradient)};

extern constexpr OpDef kLrn = {
    .name = "LRN",
    .infer = InferLrn,
    .reference =
        Instantiate<Floats>([]<class T>(const KernelContext& c) { Lrn<T>(c); }),
    .gradient = Rule(LrnGradient)};

// dY, X -> dX; the attributes of LRN.
extern constexpr OpDef kLrnGrad = {
    .name = "LRNGrad",
    .domain = kStrop,
    .inputs = {2, 2},
    .infer = InferLrnGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LrnGrad<T>(c); },
        LrnGradScratch)};

extern constexpr OpDef kMeanVarianceNormalization = {
    .name = "MeanVarianceNormalization",
    .since = 9,
    .infer = InferMeanVariance,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MeanVariance<T>(c); }),
    .gradient = Rule(MeanVarianceGradient)};

}  // namespace strop::ops
