// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

struct LossCase {
  int64_t rows;
  int64_t classes;
  std::string reduction = "mean";
  std::optional<int64_t> ignore_index = {};
};

const LossCase kCases[] = {
    {1, 1},           {1, 10},
    {32, 10},         {7, 3, "sum"},
    {7, 16, "none"},  {5, 17},
    {64, 1000},       {9, 5, "mean", -1},
    {9, 5, "sum", 2}, {9, 5, "none", 255},
    {0, 4, "mean"},   {0, 4, "none"},
};

template <class T>
struct LossData {
  LossData(const LossCase& test, RandomValues& random)
      : x(random.Floats(test.rows * test.classes)) {
    for (float& value : x) value = value * 10 + 300;
    for (int64_t i = 0; i < test.rows; ++i) {
      const bool ignored = test.ignore_index && i % 3 == 1;
      labels.push_back(static_cast<T>(
          ignored ? *test.ignore_index
                  : static_cast<int64_t>(random() % test.classes)));
    }
  }
  bool Counts(const LossCase& test, int64_t row) const {
    return !test.ignore_index || labels[row] != *test.ignore_index;
  }

  std::vector<float> x;
  std::vector<T> labels;
};

void SetOptions(const LossCase& test, KernelRunner& runner) {
  runner.Set("reduction", test.reduction);
  if (test.ignore_index) runner.Set("ignore_index", *test.ignore_index);
}

template <class T>
void CheckForward(const LossCase& test, RandomValues& random, int threads) {
  const LossData<T> data(test, random);
  const int64_t n = test.classes;
  std::vector<double> log_prob(data.x.size());
  std::vector<double> losses(static_cast<size_t>(test.rows));
  double sum = 0;
  int counted = 0;
  for (int64_t i = 0; i < test.rows; ++i) {
    double total = 0;
    for (int64_t j = 0; j < n; ++j) {
      total += std::exp(double{data.x[i * n + j]} - 300);
    }
    for (int64_t j = 0; j < n; ++j) {
      log_prob[i * n + j] = data.x[i * n + j] - 300 - std::log(total);
    }
    if (!data.Counts(test, i)) continue;
    losses[i] = -log_prob[i * n + data.labels[i]];
    sum += losses[i];
    ++counted;
  }
  const bool none = test.reduction == "none";
  const Shape shape = none ? Shape{test.rows} : Shape{};
  auto loss = Nans(shape.element_count());
  auto y = Nans(test.rows * n);
  KernelRunner runner(kOnnx, "SoftmaxCrossEntropyLoss");
  SetOptions(test, runner);
  runner.Input(Tensor(Shape{test.rows, n}, data.x.data()))
      .Input(Tensor(Shape{test.rows}, data.labels.data()))
      .Output(Tensor(shape, loss.data()))
      .Output(Tensor(Shape{test.rows, n}, y.data()))
      .Run(threads);
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], log_prob[i], 2e-6 * (1 - log_prob[i])) << i;
  }
  if (none) {
    for (int64_t i = 0; i < test.rows; ++i) {
      ASSERT_NEAR(loss[i], losses[i], 2e-6 * (1 + losses[i])) << i;
    }
  } else {
    if (test.reduction == "mean" && counted > 0) sum /= counted;
    ASSERT_NEAR(loss[0], sum, 2e-6 * (1 + sum));
  }
}

template <class T>
void CheckGradient(const LossCase& test, RandomValues& random, int threads) {
  LossData<T> data(test, random);
  const int64_t n = test.classes;
  for (float& value : data.x) value = (value - 300) / 20 - 3;  // log_prob
  const bool none = test.reduction == "none";
  const Shape shape = none ? Shape{test.rows} : Shape{};
  const auto dy = random.Floats(shape.element_count());
  auto dx = Nans(test.rows * n);
  KernelRunner runner(kMicrosoft, "SoftmaxCrossEntropyLossGrad");
  SetOptions(test, runner);
  runner.Input(Tensor(shape, dy.data()))
      .Input(Tensor(Shape{test.rows, n}, data.x.data()))
      .Input(Tensor(Shape{test.rows}, data.labels.data()))
      .Output(Tensor(Shape{test.rows, n}, dx.data()))
      .Run(threads);
  int counted = 0;
  for (int64_t i = 0; i < test.rows; ++i) counted += data.Counts(test, i);
  for (int64_t i = 0; i < test.rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double s = none ? dy[i] : dy[0];
      if (test.reduction == "mean") s /= counted;
      double wanted = (std::exp(double{data.x[i * n + j]}) -
                       (data.labels[i] == j ? 1 : 0)) *
                      s;
      if (!data.Counts(test, i)) wanted = 0;
      ASSERT_NEAR(dx[i * n + j], wanted, 1e-6 * (1 + std::abs(wanted)));
    }
  }
}

TEST(SoftmaxCrossEntropyTest, AgreesWithPlainLoop) {
  RandomValues random(1);
  for (const LossCase& test : kCases) {
    SCOPED_TRACE(testing::Message() << test.rows << " x " << test.classes << " "
                                    << test.reduction);
    for (const int threads : {1, 2}) {
      CheckForward<int32_t>(test, random, threads);
      CheckForward<int64_t>(test, random, threads);
      CheckGradient<int32_t>(test, random, threads);
      CheckGradient<int64_t>(test, random, threads);
    }
  }
}

TEST(SoftmaxCrossEntropyTest, AllIgnoredGivesZero) {
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<int64_t> labels = {7, 7};
  float loss = kNan;
  KernelRunner(kOnnx, "SoftmaxCrossEntropyLoss")
      .Set("ignore_index", int64_t{7})
      .Input(Tensor(Shape{2, 2}, x.data()))
      .Input(Tensor(Shape{2}, labels.data()))
      .Output(Tensor(Shape{}, &loss))
      .Run();
  EXPECT_EQ(loss, 0);
}

TEST(SoftmaxCrossEntropyTest, NanAndInfinityShow) {
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(20, 1.0f);
    x[3] = bad;
    std::vector<int64_t> labels = {5};
    float loss = 0;
    KernelRunner(kOnnx, "SoftmaxCrossEntropyLoss")
        .Input(Tensor(Shape{1, 20}, x.data()))
        .Input(Tensor(Shape{1}, labels.data()))
        .Output(Tensor(Shape{}, &loss))
        .Run();
    EXPECT_FALSE(std::isfinite(loss));
  }
}

TEST(SoftmaxCrossEntropyTest, NamesTheLabelThatIsNoClass) {
  std::vector<float> x(6);
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{1} << 40}) {
    std::vector<int64_t> labels = {0, bad};
    float loss = 0;
    KernelRunner runner(kOnnx, "SoftmaxCrossEntropyLoss");
    runner.Input(Tensor(Shape{2, 3}, x.data()))
        .Input(Tensor(Shape{2}, labels.data()))
        .Output(Tensor(Shape{}, &loss));
    try {
      runner.Run();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "[SoftmaxCrossEntropyLoss \"test\"] label " +
                                  std::to_string(bad) +
                                  " in row 1 is not one of 3 classes");
    }
  }
}

}  // namespace
}  // namespace strop
