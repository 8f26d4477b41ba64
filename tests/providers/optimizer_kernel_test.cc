// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

using Values = std::vector<std::vector<float>>;

const std::vector<int64_t> kSizes = {1, 17, 0, 4096, 9001};

Values RandomLists(RandomValues& random) {
  Values lists;
  for (const int64_t size : kSizes) lists.push_back(random.Floats(size));
  return lists;
}

std::vector<Tensor> TensorsOf(Values& lists) {
  std::vector<Tensor> tensors;
  for (auto& values : lists) {
    tensors.push_back(
        Tensor(Shape{static_cast<int64_t>(values.size())}, values.data()));
  }
  return tensors;
}

TEST(InPlaceAccumulatorTest, AddsOrOverwrites) {
  RandomValues random(1);
  for (const int64_t n : {0, 1, 16, 19, 100000}) {
    const auto before = random.Floats(n);
    const auto value = random.Floats(n);
    for (bool overwrite : {false, true}) {
      for (const bool has_flag : {true, false}) {
        auto buffer = overwrite && has_flag ? Nans(n) : before;
        bool updated = false;
        KernelRunner runner(kMicrosoft, "InPlaceAccumulatorV2");
        runner.Input(Tensor(Shape{n}, buffer.data()))
            .Input(Tensor(Shape{n}, value.data()));
        if (has_flag) runner.Input(Tensor(Shape{1}, &overwrite));
        runner.Output(Tensor(Shape{1}, &updated)).Run(2);
        EXPECT_TRUE(updated);
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(buffer[i],
                    overwrite && has_flag ? value[i] : before[i] + value[i]);
        }
      }
    }
  }
}

struct AdamWCase {
  int64_t mode;
  float weight_decay;
  float epsilon;
  float alpha;
  float beta;
  int64_t correct_bias;
};

struct AdamWData {
  float rate = 0.1f;
  int64_t step = 1;
  Values w, g, m, v;
  bool updated = false;
  bool signal = true;

  void Run(const AdamWCase& test, int threads) {
    KernelRunner runner(kMicrosoft, "AdamWOptimizer");
    runner.Set("adam_mode", test.mode)
        .Set("weight_decay", test.weight_decay)
        .Set("epsilon", test.epsilon)
        .Set("alpha", test.alpha)
        .Set("beta", test.beta)
        .Set("correct_bias", test.correct_bias)
        .Input(Tensor(Shape{1}, &rate))
        .Input(Tensor(Shape{1}, &step))
        .List(TensorsOf(w))
        .List(TensorsOf(g))
        .List(TensorsOf(m))
        .List(TensorsOf(v))
        .Input(Tensor(Shape{1}, &signal))
        .Output(Tensor(Shape{1}, &updated))
        .Run(threads);
  }
};

// Three steps from [1, -2], as the release computes them.
TEST(AdamWTest, AgreesWithTheRelease) {
  const struct {
    AdamWCase test;
    float w0, w1;
  } cases[] = {
      {{0, .01f, 1e-8f, .9f, .999f, 1}, 0.83655286f, -2.18356729f},
      {{1, .01f, 1e-6f, .9f, .999f, 1}, 0.83672297f, -2.18337369f},
      {{1, .1f, 1e-3f, .8f, .9f, 0}, 0.86296815f, -2.06708431f},
  };
  const float g0[] = {.5f, -.25f, .125f};
  const float g1[] = {1, 2, -3};
  for (const auto& [test, w0, w1] : cases) {
    AdamWData data;
    data.w = {{1}, {-2}};
    data.m = data.v = {{0}, {0}};
    for (int i = 0; i < 3; ++i) {
      data.step = i + 1;
      data.g = {{g0[i]}, {g1[i]}};
      data.Run(test, 1);
    }
    EXPECT_TRUE(data.updated);
    EXPECT_NEAR(data.w[0][0], w0, 2e-6);
    EXPECT_NEAR(data.w[1][0], w1, 2e-6);
  }
}

TEST(AdamWTest, AgreesWithPlainLoop) {
  RandomValues random(2);
  for (const int64_t mode : {0, 1}) {
    for (const int threads : {1, 2}) {
      const AdamWCase test = {mode, .05f, 1e-4f, .85f, .99f, 1};
      AdamWData data;
      data.rate = .03f;
      data.step = 5;
      data.w = RandomLists(random);
      data.g = RandomLists(random);
      data.m = RandomLists(random);
      data.v = RandomLists(random);
      for (auto& values : data.v) {
        for (float& value : values) value *= value;
      }
      const AdamWData before = data;
      data.Run(test, threads);
      const double c1 = 1 - std::pow(double{test.alpha}, 5);
      const double c2 = 1 - std::pow(double{test.beta}, 5);
      for (size_t t = 0; t < kSizes.size(); ++t) {
        for (size_t i = 0; i < data.w[t].size(); ++i) {
          double w = before.w[t][i];
          const double g = before.g[t][i];
          const double m = test.alpha * before.m[t][i] + (1 - test.alpha) * g;
          const double v = test.beta * before.v[t][i] + (1 - test.beta) * g * g;
          const double decay = data.rate * test.weight_decay;
          if (mode == 0) {
            w -= w * decay;
            w -= data.rate * m / (c1 * (std::sqrt(v / c2) + test.epsilon));
          } else {
            w -= data.rate * std::sqrt(c2) / c1 * m /
                 (std::sqrt(v) + test.epsilon);
            w -= w * decay;
          }
          ASSERT_NEAR(data.w[t][i], w, 1e-5 * (1 + std::abs(w)));
          ASSERT_NEAR(data.m[t][i], m, 1e-6 * (1 + std::abs(m)));
          ASSERT_NEAR(data.v[t][i], v, 1e-6 * (1 + v));
        }
      }
    }
  }
}

TEST(AdamWTest, NoSignalNoChange) {
  AdamWData data;
  data.signal = false;
  data.updated = true;
  data.w = data.g = data.m = data.v = {{1, 2, 3}};
  const Values before = data.w;
  data.Run({0, .01f, 1e-8f, .9f, .999f, 1}, 1);
  EXPECT_FALSE(data.updated);
  EXPECT_EQ(data.w, before);
  EXPECT_EQ(data.m, before);
  EXPECT_EQ(data.v, before);
}

TEST(SgdTest, StepsDown) {
  RandomValues random(3);
  Values w = RandomLists(random);
  Values g = RandomLists(random);
  const Values before = w;
  float rate = 0.25f;
  for (bool signal : {false, true}) {
    bool updated = !signal;
    KernelRunner(kMicrosoft, "SGDOptimizerV2")
        .Input(Tensor(Shape{}, &rate))
        .List(TensorsOf(w))
        .List(TensorsOf(g))
        .Input(Tensor(Shape{1}, &signal))
        .Output(Tensor(Shape{1}, &updated))
        .Run(2);
    EXPECT_EQ(updated, signal);
    for (size_t t = 0; t < w.size(); ++t) {
      for (size_t i = 0; i < w[t].size(); ++i) {
        ASSERT_FLOAT_EQ(w[t][i],
                        signal ? before[t][i] - rate * g[t][i] : before[t][i]);
      }
    }
  }
}

TEST(ClipGradNormTest, ScalesDownToTheNorm) {
  RandomValues random(4);
  const Values before = RandomLists(random);
  double total = 0;
  for (const auto& values : before) {
    for (const float value : values) total += double{value} * value;
  }
  const double norm = std::sqrt(total);
  for (const double max_norm : {1.0, norm * 0.999, norm * 1.001, 1e9}) {
    Values first;
    for (const int threads : {1, 2, 3}) {
      Values g = before;
      KernelRunner(kMicrosoft, "InplaceClipGradNorm")
          .Set("max_norm", static_cast<float>(max_norm))
          .List(TensorsOf(g))
          .Run(threads);
      const double factor = std::min(1.0, max_norm / (norm + 1e-6));
      for (size_t t = 0; t < g.size(); ++t) {
        for (size_t i = 0; i < g[t].size(); ++i) {
          ASSERT_NEAR(g[t][i], before[t][i] * factor, 1e-6);
        }
      }
      if (first.empty()) first = g;
      EXPECT_EQ(g, first) << threads << " threads";
    }
  }
}

TEST(ClipGradNormTest, NanSpreads) {
  Values g = {{1, 2}, {kNan}};
  KernelRunner(kMicrosoft, "InplaceClipGradNorm").List(TensorsOf(g)).Run();
  EXPECT_TRUE(std::isnan(g[0][0]) && std::isnan(g[0][1]));
}

}  // namespace
}  // namespace strop
