// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization, its form in training graphs (BatchNormInternal) and
// its gradient. X is (N, C, ...), or (N) with one channel; everything else
// has one number per channel. With spatial = 0, which opsets 6 to 8 have,
// every position of every channel counts as a channel.
#include "ops/nn/batch_norm.h"

#include <cmath>

#include "ops/gradient.h"

namespace strop::ops {
namespace {

struct BatchNormSizes {
  int64_t batch, channels, inner;
  int64_t count() const { return batch * inner; }
};

bool IsSpatial(const OpNode& node) { return node.Int("spatial", 1) != 0; }

BatchNormSizes ReadSizes(const OpNode& node, const Shape& x) {
  if (x.rank() < 1) Fail(node, "wants a batch, not a scalar");
  if (!IsSpatial(node)) return {x[0], x.element_count(1, x.rank()), 1};
  if (x.rank() == 1) return {x[0], 1, 1};
  return {x[0], x[1], x.element_count(2, x.rank())};
}

// The shape of what has one number per channel.
Shape ChannelShape(const OpNode& node, const Shape& x) {
  const BatchNormSizes s = ReadSizes(node, x);
  if (IsSpatial(node)) return {s.channels};
  return Shape(std::span<const int64_t>(x.begin() + 1, x.end()));
}

// With more than one output the node normalizes by the batch's statistics.
template <class Context>
bool UsesBatchStatistics(const Context& c) {
  if (c.node().Int("training_mode", 0) != 0) return true;
  for (size_t i = 1; i < c.output_count(); ++i) {
    if (c.has_output(i)) return true;
  }
  return false;
}

}  // namespace

// X, scale, bias, mean, variance: three types of floats
void InferBatchNorm(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const Shape channels = ChannelShape(c.node(), x.shape);
  for (size_t i = 1; i < 5; ++i) {
    RequireFloat(c, i);
    RequireShape(c, i, channels);
  }
  RequireSameType(c, 1, 2);
  RequireSameType(c, 3, 4);
  c.SetOutput(0, x.type, x.shape);
  for (size_t i = 1; i < c.output_count(); ++i) {
    c.SetOutput(i, c.input(3).type, channels);
  }
}

namespace {

// Calls run(data + offset, inner) for the parts of one channel.
template <class F>
void ForEachRun(const BatchNormSizes& s, int64_t channel, F&& run) {
  for (int64_t n = 0; n < s.batch; ++n) {
    run((n * s.channels + channel) * s.inner);
  }
}

template <class T>
struct Moments {
  double mean = 0, variance = 0;
};

// Population moments, in two passes.
template <class T>
Moments<T> ChannelMoments(const BatchNormSizes& s, int64_t channel,
                          const T* x) {
  Moments<T> m;
  const double count = static_cast<double>(s.count());
  ForEachRun(s, channel, [&](int64_t at) {
    for (int64_t i = 0; i < s.inner; ++i) {
      m.mean += static_cast<double>(x[at + i]);
    }
  });
  m.mean /= count;
  ForEachRun(s, channel, [&](int64_t at) {
    for (int64_t i = 0; i < s.inner; ++i) {
      const double d = static_cast<double>(x[at + i]) - m.mean;
      m.variance += d * d;
    }
  });
  m.variance /= count;
  return m;
}

}  // namespace

template <class T>
void BatchNorm(const KernelContext& c, bool saves_inverse) {
  const BatchNormSizes s = ReadSizes(c.node(), c.input(0).shape());
  const bool batch_statistics = UsesBatchStatistics(c);
  if (batch_statistics && s.count() == 0) {
    Fail(c.node(), "an empty batch has no statistics");
  }
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const double momentum = c.node().Float("momentum", 0.9f);
  const T* x = c.in<T>(0).data();
  const auto scale = c.in<T>(1), bias = c.in<T>(2);
  const auto mean = c.in<T>(3), variance = c.in<T>(4);
  T* y = c.out<T>(0).data();
  const auto run_channel = [&](int64_t channel) {
    Moments<T> m = {static_cast<double>(mean[channel]),
                    static_cast<double>(variance[channel])};
    if (batch_statistics) m = ChannelMoments(s, channel, x);
    const double inverse = 1 / std::sqrt(m.variance + epsilon);
    const T factor = static_cast<T>(scale[channel] * inverse);
    const T center = static_cast<T>(m.mean);
    ForEachRun(s, channel, [&](int64_t at) {
      for (int64_t i = 0; i < s.inner; ++i) {
        y[at + i] = (x[at + i] - center) * factor + bias[channel];
      }
    });
    if (!batch_statistics) return;
    const auto set = [&](size_t output, double value) {
      if (c.has_output(output)) {
        c.out<T>(output)[channel] = static_cast<T>(value);
      }
    };
    set(1, mean[channel] * momentum + m.mean * (1 - momentum));
    set(2, variance[channel] * momentum + m.variance * (1 - momentum));
    set(3, m.mean);
    set(4, saves_inverse ? inverse : m.variance);
  };
  c.ParallelFor(s.channels, 3.0 * static_cast<double>(s.count()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_channel(i);
                });
}

template void BatchNorm<float>(const KernelContext&, bool);
template void BatchNorm<double>(const KernelContext&, bool);

// dY, X, scale, saved mean, saved 1 / sqrt(variance + epsilon)
void InferBatchNormGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  const TensorInfo& x = c.input(1);
  const Shape channels = ChannelShape(c.node(), x.shape);
  for (size_t i = 2; i < 5; ++i) {
    RequireFloat(c, i);
    RequireShape(c, i, channels);
  }
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, c.input(2).type, channels);
  c.SetOutput(2, c.input(2).type, channels);
}

// With x^ = (x - mean) inverse and n values in a channel:
//   dbias = sum(dy), dscale = sum(dy x^),
//   dx = scale inverse (dy - dbias / n - x^ dscale / n)
template <class T>
void BatchNormGrad(const KernelContext& c, const T* dy) {
  const BatchNormSizes s = ReadSizes(c.node(), c.input(1).shape());
  const T* x = c.in<T>(1).data();
  const auto scale = c.in<T>(2), mean = c.in<T>(3), inverse = c.in<T>(4);
  T* dx = c.has_output(0) ? c.out<T>(0).data() : nullptr;
  const auto run_channel = [&](int64_t channel) {
    const double center = static_cast<double>(mean[channel]);
    const double factor = static_cast<double>(inverse[channel]);
    double dscale = 0, dbias = 0;
    ForEachRun(s, channel, [&](int64_t at) {
      for (int64_t i = 0; i < s.inner; ++i) {
        const double g = static_cast<double>(dy[at + i]);
        dbias += g;
        dscale += g * (static_cast<double>(x[at + i]) - center);
      }
    });
    dscale *= factor;
    if (c.has_output(1)) c.out<T>(1)[channel] = static_cast<T>(dscale);
    if (c.has_output(2)) c.out<T>(2)[channel] = static_cast<T>(dbias);
    if (dx == nullptr) return;
    const double n = static_cast<double>(s.count());
    const T outer = static_cast<T>(scale[channel] * factor);
    const T shift = static_cast<T>(dbias / n);
    const T slope = static_cast<T>(factor * dscale / n);
    const T middle = mean[channel];
    ForEachRun(s, channel, [&](int64_t at) {
      for (int64_t i = 0; i < s.inner; ++i) {
        dx[at + i] =
            outer * (dy[at + i] - shift - (x[at + i] - middle) * slope);
      }
    });
  };
  c.ParallelFor(s.channels, 3.0 * static_cast<double>(s.count()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_channel(i);
                });
}

template void BatchNormGrad<float>(const KernelContext&, const float*);
template void BatchNormGrad<double>(const KernelContext&, const double*);

// --- Gradients

namespace {

// Outputs 3 and 4 are the statistics of the batch.
void BatchNormInternalGradient(GradientContext& c) {
  for (size_t i = 1; i < c.output_count(); ++i)
    if (c.has_dy(i)) c.Fail("has a gradient for its first output only");
  if (!IsSpatial(c.node())) c.Fail("has no gradient with spatial = 0");
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x(1));
  const Var mean = c.AddedOutput(3, "saved_mean", type);
  const Var inverse = c.AddedOutput(4, "saved_inv_std", type);
  const DataType types[] = {b.type(c.x()), type, b.type(c.x(2))};
  const Var inputs[] = {c.dy(), c.x(0), c.x(1), mean, inverse};
  const auto gradients =
      b.Ops("BatchNormalizationGrad", inputs, types,
            {{"epsilon", c.node().Float("epsilon", 1e-5f)}}, kMicrosoft);
  for (size_t i = 0; i < 3; ++i) c.Set(i, gradients[i]);
}

// One number a channel, to be broadcast to x.
Var PerChannel(GradientContext& c, Var channels, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i) - 1);
  return c.build().Unsqueeze(channels, axes);
}

// With statistics that stay as they are: y = scale (x - mean) r + bias with
// r = 1 / sqrt(variance + epsilon).
void FrozenGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto rank = b.rank(c.x());
  if (!rank) c.Fail("the rank of its input must be known");
  if (!IsSpatial(c.node())) c.Fail("has no gradient with spatial = 0");
  std::vector<int64_t> axes = {0};
  for (size_t i = 2; i < *rank; ++i) axes.push_back(static_cast<int64_t>(i));
  // A batch without further axes has one channel.
  const auto sums = [&](Var x) { return b.ReduceSum(x, axes, *rank == 1); };
  const DataType wide = WidestFloat(c);
  const auto in = [&](size_t i) { return b.Cast(c.x(i), wide); };
  const auto set = [&](size_t i, Var gradient) {
    c.Set(i, b.Cast(gradient, b.type(c.x(i))));
  };
  const Var dy = b.Cast(c.dy(), wide);
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const Var r = 1 / b.Op("Sqrt", {in(4) + epsilon});
  const Var slope = in(1) * r;
  if (c.needs(0)) set(0, dy * PerChannel(c, slope, *rank));
  const Var db = sums(dy);
  set(2, db);
  if (c.needs(3)) set(3, -(db * slope));
  if (!c.needs(1) && !c.needs(4)) return;
  const Var along = sums(dy * (in(0) - PerChannel(c, in(3), *rank)));
  set(1, along * r);
  if (c.needs(4)) set(4, along * slope * (r * r) * -0.5);
}

// ONNX Runtime's own op gives what its gradient wants.
void BatchNormalizationGradient(GradientContext& c) {
  if (!UsesBatchStatistics(c)) return FrozenGradient(c);
  c.Become("BatchNormInternal", kMicrosoft);
  BatchNormInternalGradient(c);
}

}  // namespace

// Outputs Y, running mean, running variance, saved mean, saved variance.
extern constexpr OpDef kBatchNormalization = {
    .name = "BatchNormalization",
    .inputs = {5, 5},
    .outputs = {1, 5},
    .infer = InferBatchNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BatchNorm<T>(c, false); }),
    .may_overwrite = {0},
    .gradient = Rule(BatchNormalizationGradient),
    .mixes_floats = true};

// Outputs Y, running mean, running variance, saved mean, saved 1 / sqrt(
// variance + epsilon). ONNX Runtime updates the running statistics in place;
// here the outputs are values like any other, which the pass
// WriteBatchNormStatistics writes back once nothing can fail any more.
extern constexpr OpDef kBatchNormInternal = {
    .name = "BatchNormInternal",
    .domain = kMicrosoft,
    .inputs = {5, 5},
    .outputs = {1, 5},
    .infer = InferBatchNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BatchNorm<T>(c, true); }),
    .may_overwrite = {0},
    .gradient = Rule(BatchNormInternalGradient),
    .stops_gradient = {3, 4},
    .mixes_floats = true};

extern constexpr OpDef kBatchNormalizationGrad = {
    .name = "BatchNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {5, 5},
    .outputs = {0, 3},
    .infer = InferBatchNormGrad,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      BatchNormGrad<T>(c, c.in<T>(0).data());
    }),
    // A channel is summed before it is written.
    .may_overwrite = {0, 1},
    .mixes_floats = true};

}  // namespace strop::ops
