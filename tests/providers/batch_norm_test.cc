// SPDX-License-Identifier: Apache-2.0
//
// BatchNormalization, what is fused to it and the gradient of both, against
// plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "providers/cpu/conv/kernels.h"
#include "providers/layout_runner.h"

namespace strop {
namespace {

using Doubles = std::vector<double>;

struct Variant {
  std::string activation;
  bool residual = false;
};

const Variant kVariants[] = {
    {""}, {"Relu"}, {"Clip"}, {"", true}, {"Relu", true}};
constexpr double kLow = -0.5, kHigh = 1.5;
constexpr double kEpsilon = 1e-3, kMomentum = 0.75;

// One position, a vector's tail, several parts of a channel, several blocks.
const Shape kShapes[] = {{2, 3, 9, 1}, {3, 16, 1, 1},  {2, 17, 4, 5},
                         {1, 40, 13},  {2, 5, 70, 70}, {5, 8}};
const Layout kLayouts[] = {Layout::kPlain, Layout::kBlocked8,
                           Layout::kBlocked16};

// Values far from zero, where the difference of two sums would lose them.
std::vector<float> Samples(const Shape& shape, uint32_t seed) {
  std::vector<float> values = RandomFloats(shape.element_count(), seed);
  for (float& value : values) value = 100 + 2 * value;
  return values;
}

struct Problem {
  Shape shape;
  Variant variant;
  std::vector<float> x, residual, dy;
  std::vector<float> scale, bias, mean, variance;

  Problem(const Shape& s, const Variant& v)
      : shape(s),
        variant(v),
        x(Samples(s, 1)),
        residual(RandomFloats(s.element_count(), 2)),
        dy(RandomFloats(s.element_count(), 3)),
        scale(RandomFloats(s[1], 4)),
        bias(RandomFloats(s[1], 5)),
        mean(RandomFloats(s[1], 6)),
        variance(RandomFloats(s[1], 7)) {
    for (float& value : variance) value = std::abs(value) + 0.5f;
  }

  int64_t inner() const { return shape.element_count(2, shape.rank()); }
  int64_t channels() const { return shape[1]; }
  int64_t ChannelOf(size_t i) const {
    return static_cast<int64_t>(i) / inner() % channels();
  }
  double count() const {
    return static_cast<double>(shape.element_count() / channels());
  }
};

struct Statistics {
  Doubles mean, variance;
  double inverse(int64_t c) const {
    return 1 / std::sqrt(variance[static_cast<size_t>(c)] + kEpsilon);
  }
};

Statistics BatchStatistics(const Problem& p) {
  const auto channels = static_cast<size_t>(p.channels());
  Statistics s = {Doubles(channels), Doubles(channels)};
  for (size_t i = 0; i < p.x.size(); ++i) s.mean[p.ChannelOf(i)] += p.x[i];
  for (double& mean : s.mean) mean /= p.count();
  for (size_t i = 0; i < p.x.size(); ++i) {
    const double d = p.x[i] - s.mean[p.ChannelOf(i)];
    s.variance[p.ChannelOf(i)] += d * d;
  }
  for (double& variance : s.variance) variance /= p.count();
  return s;
}

// What the activation gets.
Doubles Sums(const Problem& p, const Statistics& s) {
  Doubles z;
  for (size_t i = 0; i < p.x.size(); ++i) {
    const int64_t c = p.ChannelOf(i);
    z.push_back((p.x[i] - s.mean[c]) * s.inverse(c) * p.scale[c] + p.bias[c] +
                (p.variant.residual ? p.residual[i] : 0.0f));
  }
  return z;
}

double Activate(const Variant& variant, double z) {
  if (variant.activation == "Relu") return std::max(z, 0.0);
  if (variant.activation == "Clip") return std::clamp(z, kLow, kHigh);
  return z;
}

void SetAttributes(LayoutRunner& runner, const Problem& p) {
  runner.Set("epsilon", static_cast<float>(kEpsilon));
  runner.Set("momentum", static_cast<float>(kMomentum));
  if (p.variant.activation.empty()) return;
  runner.Set("activation", p.variant.activation);
  if (p.variant.activation == "Clip") {
    runner.Set("activation_params", std::vector<float>{kLow, kHigh});
  }
}

void ExpectNear(std::span<const float> have, const Doubles& want,
                double tolerance) {
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(have[i], want[i], tolerance * std::max(1.0, std::abs(want[i])))
        << i;
  }
}

// Runs `test` for all of the above, the layout being that of x and y.
template <class F>
void ForAll(F&& test) {
  for (const Shape& shape : kShapes) {
    for (const Layout layout : kLayouts) {
      if (layout == Layout::kPlain && shape.element_count(2, shape.rank()) < 8)
        continue;  // declined
      for (const Variant& variant : kVariants) {
        SCOPED_TRACE(testing::Message()
                     << shape.ToString() << " " << LayoutName(layout) << " "
                     << variant.activation << variant.residual);
        test(Problem(shape, variant), layout);
      }
    }
  }
}

LayoutRun RunForward(const Problem& p, Layout layout, bool trains,
                     int threads) {
  LayoutRunner runner(kInternal, "BatchNormActivation");
  SetAttributes(runner, p);
  const Shape channels{p.channels()};
  runner.Floats(p.shape, p.x, layout);
  for (const auto* values : {&p.scale, &p.bias, &p.mean, &p.variance}) {
    runner.Floats(channels, *values);
  }
  if (p.variant.residual) runner.Floats(p.shape, p.residual);
  runner.Output(p.shape);
  for (int i = 0; i < 4 && trains; ++i) runner.Output(channels);
  LayoutRun run = runner.Run(ChooseBatchNorm, threads);
  EXPECT_TRUE(run.accepted) << run.reason;
  return run;
}

TEST(BatchNormKernel, NormalizesByTheBatch) {
  ForAll([](const Problem& p, Layout layout) {
    const Statistics s = BatchStatistics(p);
    Doubles y = Sums(p, s);
    for (double& value : y) value = Activate(p.variant, value);
    Doubles inverse, mean, variance;
    for (int64_t c = 0; c < p.channels(); ++c) {
      inverse.push_back(s.inverse(c));
      mean.push_back(p.mean[c] * kMomentum + s.mean[c] * (1 - kMomentum));
      variance.push_back(p.variance[c] * kMomentum +
                         s.variance[c] * (1 - kMomentum));
    }
    for (const int threads : {1, 3}) {
      const LayoutRun run = RunForward(p, layout, true, threads);
      EXPECT_EQ(run.layouts[0], layout);
      // x is near 100: its last bit is 8e-6.
      ExpectNear(run.out(0), y, 1e-4);
      ExpectNear(run.out(1), mean, 1e-6);
      ExpectNear(run.out(2), variance, 1e-5);
      ExpectNear(run.out(3), s.mean, 1e-6);
      ExpectNear(run.out(4), inverse, 1e-5);
    }
  });
}

TEST(BatchNormKernel, NormalizesByGivenStatistics) {
  ForAll([](const Problem& p, Layout layout) {
    Statistics s;
    s.mean.assign(p.mean.begin(), p.mean.end());
    s.variance.assign(p.variance.begin(), p.variance.end());
    Doubles y = Sums(p, s);
    for (double& value : y) value = Activate(p.variant, value);
    const LayoutRun run = RunForward(p, layout, false, 2);
    ExpectNear(run.out(0), y, 1e-5);
  });
}

TEST(BatchNormKernel, AnyNumberOfThreadsGivesTheSameBits) {
  const Problem p({3, 40, 9, 11}, {"Relu"});
  const LayoutRun one = RunForward(p, Layout::kBlocked16, true, 1);
  const LayoutRun two = RunForward(p, Layout::kBlocked16, true, 2);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(std::ranges::equal(one.out(i), two.out(i))) << i;
  }
}

TEST(BatchNormKernel, ClipThatMovesZeroReadsPlain) {
  Problem p({2, 5, 4, 4}, {"Clip"});
  LayoutRunner runner(kInternal, "BatchNormActivation");
  runner.Set("activation", std::string("Clip"))
      .Set("activation_params", std::vector<float>{0.25f, 1});
  runner.Floats(p.shape, p.x, Layout::kBlocked8);
  for (const auto* values : {&p.scale, &p.bias, &p.mean, &p.variance}) {
    runner.Floats({5}, *values);
  }
  const LayoutRun run = runner.Output(p.shape).Run(ChooseBatchNorm, 1);
  EXPECT_EQ(run.layouts[0], Layout::kPlain);
}

TEST(BatchNormGradKernel, AgreesWithThePlainLoops) {
  ForAll([](const Problem& p, Layout layout) {
    const Statistics s = BatchStatistics(p);
    const Doubles z = Sums(p, s);
    const auto channels = static_cast<size_t>(p.channels());
    Doubles dz, dbias(channels), dscale(channels), dx;
    std::vector<float> y;
    std::vector<float> mean, inverse;
    for (int64_t c = 0; c < p.channels(); ++c) {
      mean.push_back(static_cast<float>(s.mean[c]));
      inverse.push_back(static_cast<float>(s.inverse(c)));
    }
    for (size_t i = 0; i < z.size(); ++i) {
      y.push_back(static_cast<float>(Activate(p.variant, z[i])));
      const bool through = p.variant.activation.empty() || y.back() == z[i] ||
                           static_cast<float>(z[i]) == y.back();
      dz.push_back(through && (p.variant.activation != "Relu" || z[i] > 0)
                       ? p.dy[i]
                       : 0.0);
      const int64_t c = p.ChannelOf(i);
      dbias[c] += dz[i];
      dscale[c] += dz[i] * (p.x[i] - s.mean[c]) * s.inverse(c);
    }
    for (size_t i = 0; i < z.size(); ++i) {
      const int64_t c = p.ChannelOf(i);
      const double normal = (p.x[i] - s.mean[c]) * s.inverse(c);
      dx.push_back(
          p.scale[c] * s.inverse(c) *
          (dz[i] - dbias[c] / p.count() - normal * dscale[c] / p.count()));
    }

    LayoutRunner runner(kInternal, "BatchNormActivationGrad");
    SetAttributes(runner, p);
    const Shape per_channel{p.channels()};
    runner.Floats(p.shape, p.dy).Floats(p.shape, p.x, layout);
    for (const auto& values : {p.scale, mean, inverse, p.bias}) {
      runner.Floats(per_channel, values);
    }
    if (p.variant.residual) runner.Floats(p.shape, y, layout);
    runner.Output(p.shape).Output(per_channel).Output(per_channel);
    if (p.variant.residual) runner.Output(p.shape);
    for (const int threads : {1, 3}) {
      const LayoutRun run = runner.Run(ChooseBatchNormGrad, threads);
      ASSERT_TRUE(run.accepted) << run.reason;
      EXPECT_EQ(run.layouts[0], layout);
      const double scale = std::sqrt(p.count());
      ExpectNear(run.out(0), dx, 1e-3);
      ExpectNear(run.out(1), dscale, 1e-4 * scale);
      ExpectNear(run.out(2), dbias, 1e-5 * scale);
      if (p.variant.residual) ExpectNear(run.out(3), dz, 0);
    }
  });
}

}  // namespace
}  // namespace strop
