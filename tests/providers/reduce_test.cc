// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

// Sums over the axes in `bits`, element order as ReduceSum.
std::vector<double> PlainSum(const std::vector<float>& x, const Shape& shape,
                             uint32_t bits) {
  std::vector<int64_t> steps(shape.rank(), 0);
  int64_t count = 1;
  for (size_t axis = shape.rank(); axis-- > 0;) {
    if (bits >> axis & 1) continue;
    steps[axis] = count;
    count *= shape[axis];
  }
  std::vector<double> sums(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (size_t axis = shape.rank(); axis-- > 0;) {
      at += rest % shape[axis] * steps[axis];
      rest /= shape[axis];
    }
    sums[at] += x[i];
  }
  return sums;
}

std::vector<int64_t> AxesOf(uint32_t bits, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t a = static_cast<int64_t>(axis);
    if (bits >> axis & 1) {
      axes.push_back(axis % 2 != 0 ? a - static_cast<int64_t>(rank) : a);
    }
  }
  return axes;
}

const Shape kShapes[] = {
    {},          {1},           {7},        {100000},      {0},
    {3, 5},      {64, 10},      {130, 67},  {1, 40},       {40, 1},
    {0, 3},      {3, 0},        {2, 3, 4},  {5, 1, 33},    {4, 6, 5, 7},
    {2, 33, 90}, {2000, 1, 20}, {16, 1000}, {3, 200, 300}, {70000, 3}};

TEST(ReduceTest, AgreesWithPlainLoop) {
  RandomValues random(1);
  for (const Shape& shape : kShapes) {
    const auto x = random.Floats(shape.element_count());
    for (uint32_t bits = 0; bits < 1u << shape.rank(); ++bits) {
      auto axes = AxesOf(bits, shape.rank());
      const bool all = axes.empty();  // no axes: all of them
      const auto wanted =
          PlainSum(x, shape, all ? (1u << shape.rank()) - 1 : bits);
      const int64_t count = static_cast<int64_t>(wanted.size());
      const double terms = shape.element_count() / std::max<double>(count, 1);
      for (const int threads : {1, 2}) {
        for (const bool mean : {false, true}) {
          SCOPED_TRACE(testing::Message() << shape.ToString() << " axes "
                                          << bits << " mean " << mean);
          auto y = Nans(count);
          KernelRunner runner(kOnnx, mean ? "ReduceMean" : "ReduceSum");
          runner.Input(Tensor(shape, x.data()))
              .Input(
                  Tensor(Shape{static_cast<int64_t>(axes.size())}, axes.data()),
                  true)
              .Output(Tensor(Shape{count}, y.data()));
          const KernelChoice choice = runner.Choose(*CpuExecutionProvider());
          if (!choice.kernel) {
            EXPECT_EQ(choice.reason, "simd.reduce: axes alternate");
            EXPECT_GE(shape.rank(), 3u);
            continue;
          }
          runner.Run(threads);
          for (int64_t i = 0; i < count; ++i) {
            const double value = mean ? wanted[i] / terms : wanted[i];
            if (terms == 0 && mean) {
              ASSERT_TRUE(std::isnan(y[i]));
            } else {
              ASSERT_NEAR(y[i], value, 2e-6 * (std::sqrt(terms) + 1)) << i;
            }
          }
        }
      }
    }
  }
}

TEST(ReduceTest, AccumulatesOrOverwrites) {
  RandomValues random(2);
  for (const Shape& shape : kShapes) {
    for (uint32_t bits = 1; bits < 1u << shape.rank(); ++bits) {
      auto axes = AxesOf(bits, shape.rank());
      const auto x = random.Floats(shape.element_count());
      const auto sums = PlainSum(x, shape, bits);
      const int64_t count = static_cast<int64_t>(sums.size());
      const double terms = shape.element_count() / std::max<double>(count, 1);
      const auto before = random.Floats(count);
      for (bool overwrite : {false, true}) {
        SCOPED_TRACE(testing::Message() << shape.ToString() << " axes " << bits
                                        << " over " << overwrite);
        auto buffer = overwrite ? Nans(count) : before;
        KernelRunner runner(kInternal, "ReduceSumAccumulate");
        const Tensor tensor(Shape{count}, buffer.data());
        runner.Input(Tensor(shape, x.data()))
            .Input(
                Tensor(Shape{static_cast<int64_t>(axes.size())}, axes.data()),
                true)
            .Input(tensor)
            .Input(Tensor(Shape{1}, &overwrite))
            .Output(tensor);
        if (!runner.Choose(*CpuExecutionProvider()).kernel) continue;
        runner.Run(2);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_NEAR(buffer[i], sums[i] + (overwrite ? 0 : before[i]),
                      2e-6 * (std::sqrt(terms) + 1));
        }
      }
    }
  }
}

// A naive float sum of these is off by thousands.
TEST(ReduceTest, LongSumsKeepTheirDigits) {
  const int64_t n = 1 << 22;
  std::vector<float> x(n, 0.1f);
  float y = kNan;
  KernelRunner(kOnnx, "ReduceSum")
      .Input(Tensor(Shape{n}, x.data()))
      .Output(Tensor(Shape{1}, &y))
      .Run(2);
  EXPECT_NEAR(y, n * double{0.1f}, 1);
}

TEST(ReduceTest, ThreadCountDoesNotChangeBits) {
  RandomValues random(3);
  const Shape shape{900, 700};
  const auto x = random.Floats(shape.element_count());
  for (const uint32_t bits : {1u, 2u, 3u}) {
    auto axes = AxesOf(bits, 2);
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      std::vector<float> y = Nans(bits == 1 ? 700 : bits == 2 ? 900 : 1);
      KernelRunner(kOnnx, "ReduceSum")
          .Input(Tensor(shape, x.data()))
          .Input(Tensor(Shape{static_cast<int64_t>(axes.size())}, axes.data()),
                 true)
          .Output(Tensor(Shape{static_cast<int64_t>(y.size())}, y.data()))
          .Run(threads);
      if (first.empty()) first = y;
      EXPECT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)),
                0);
    }
  }
}

TEST(ReduceTest, DeclinesAxesOfTheStep) {
  std::vector<float> x(4);
  int64_t axis = 0;
  EXPECT_EQ(KernelRunner(kOnnx, "ReduceSum")
                .Input(Tensor(Shape{4}, x.data()))
                .Input(Tensor(Shape{1}, &axis))
                .Output(Tensor(Shape{1}, x.data()))
                .Choose(*CpuExecutionProvider())
                .reason,
            "simd.reduce: axes are not constant");
}

}  // namespace
}  // namespace strop
