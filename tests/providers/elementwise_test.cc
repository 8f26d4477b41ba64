// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const int64_t kSizes[] = {0, 1, 3, 8, 15, 16, 17, 64, 100, 40001};

struct UnaryCase {
  std::string_view op;
  double (*function)(double);
  bool positive = false;  // only where x > 0
};

const UnaryCase kUnaryCases[] = {
    {"Relu", [](double x) { return x > 0 ? x : 0; }},
    {"Neg", [](double x) { return -x; }},
    {"Abs", [](double x) { return std::abs(x); }},
    {"Sqrt", [](double x) { return std::sqrt(x); }, true},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Log", [](double x) { return std::log(x); }, true},
    {"Tanh", [](double x) { return std::tanh(x); }},
    {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
};

TEST(UnaryTest, AgreesWithTheFunction) {
  RandomValues random(1);
  for (const UnaryCase& test : kUnaryCases) {
    for (const int64_t n : kSizes) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << test.op << " of " << n);
        std::vector<float> x = random.Floats(n);
        for (float& value : x) {
          value *= 5;
          if (test.positive) value = std::abs(value) + 1e-6f;
        }
        std::vector<float> y = Nans(n);
        KernelRunner(kOnnx, test.op)
            .Input(Tensor(Shape{n}, x.data()))
            .Output(Tensor(Shape{n}, y.data()))
            .Run(threads);
        for (int64_t i = 0; i < n; ++i) {
          const double wanted = test.function(x[i]);
          ASSERT_NEAR(y[i], wanted, 1e-6 * std::abs(wanted) + 1e-7) << x[i];
        }
      }
    }
  }
}

TEST(UnaryTest, KeepsNanAndInfinity) {
  const auto apply = [](std::string_view op, float value) {
    std::vector<float> x(21, value);
    std::vector<float> y(21, 77.0f);
    KernelRunner(kOnnx, op)
        .Input(Tensor(Shape{21}, x.data()))
        .Output(Tensor(Shape{21}, y.data()))
        .Run();
    // Whole vectors and the tail go separate ways.
    EXPECT_TRUE(y[0] == y[20] || (std::isnan(y[0]) && std::isnan(y[20])));
    return y[20];
  };
  for (const UnaryCase& test : kUnaryCases) {
    EXPECT_TRUE(std::isnan(apply(test.op, kNan))) << test.op;
  }
  EXPECT_EQ(apply("Exp", kInfinity), kInfinity);
  EXPECT_EQ(apply("Exp", 1000), kInfinity);
  EXPECT_EQ(apply("Exp", -kInfinity), 0);
  EXPECT_EQ(apply("Log", 0), -kInfinity);
  EXPECT_EQ(apply("Log", kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(apply("Log", -1)));
  EXPECT_TRUE(std::isnan(apply("Sqrt", -1)));
  EXPECT_EQ(apply("Sigmoid", 200), 1);
  EXPECT_EQ(apply("Sigmoid", -200), 0);
  EXPECT_EQ(apply("Tanh", kInfinity), 1);
  EXPECT_EQ(apply("Relu", kInfinity), kInfinity);
}

// y = f(inputs) of n elements, one tensor each.
std::vector<float> Apply(std::string_view domain, std::string_view op,
                         const std::vector<std::vector<float>>& inputs) {
  const auto n = static_cast<int64_t>(inputs[0].size());
  auto y = Nans(n);
  KernelRunner runner(domain, op);
  for (const auto& input : inputs) {
    runner.Input(Tensor(Shape{n}, input.data()));
  }
  runner.Output(Tensor(Shape{n}, y.data())).Run();
  return y;
}

TEST(GeluTest, StaysWithinItsStatedErrors) {
  std::vector<float> x;
  for (int i = -60000; i <= 60000; ++i) x.push_back(1e-4f * i);
  const std::vector<float> ones(x.size(), 1.0f);
  const auto exact = Apply(kMicrosoft, "Gelu", {x});
  const auto exact_slope = Apply(kMicrosoft, "GeluGrad", {ones, x});
  const auto tanh = Apply(kMicrosoft, "FastGelu", {x});
  const auto tanh_slope = Apply(kMicrosoft, "FastGeluGrad", {ones, x});
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double below = std::erfc(-v * std::sqrt(0.5)) / 2;
    const double density =
        std::exp(-v * v / 2) / std::sqrt(2 * 3.14159265358979324);
    ASSERT_NEAR(exact[i], v * below, 2e-6 * std::abs(v * below)) << v;
    ASSERT_NEAR(exact_slope[i], below + v * density, 1e-6) << v;
    const double scale = std::sqrt(2 / 3.14159265358979324);
    const double t = std::tanh(scale * (v + 0.044715 * v * v * v));
    ASSERT_NEAR(tanh[i], v * (1 + t) / 2, 1e-6 * std::abs(v)) << v;
    ASSERT_NEAR(
        tanh_slope[i],
        (1 + t) / 2 + v * (1 - t * t) * scale * (1 + 3 * 0.044715 * v * v) / 2,
        2e-6)
        << v;
  }
}

struct BinaryCase {
  std::string_view domain;
  std::string_view op;
  double (*function)(double, double);
};

const BinaryCase kBinaryCases[] = {
    {kOnnx, "Add", [](double a, double b) { return a + b; }},
    {kOnnx, "Sub", [](double a, double b) { return a - b; }},
    {kOnnx, "Mul", [](double a, double b) { return a * b; }},
    {kOnnx, "Div", [](double a, double b) { return a / b; }},
    {kMicrosoft, "ReluGrad",
     [](double dy, double x) { return x > 0 ? dy : 0; }},
    {kMicrosoft, "TanhGrad",
     [](double dy, double y) { return dy * (1 - y * y); }},
    {kMicrosoft, "SigmoidGrad",
     [](double dy, double y) { return dy * y * (1 - y); }},
};

// The element of `values` (of `shape`) that meets element `index` of a
// tensor of shape `out`.
float Broadcast(const std::vector<float>& values, const Shape& shape,
                const Shape& out, int64_t index) {
  int64_t at = 0;
  int64_t step = 1;
  for (size_t i = 0; i < out.rank(); ++i) {
    const size_t axis = out.rank() - 1 - i;
    const int64_t position = index % out[axis];
    index /= out[axis];
    if (i >= shape.rank()) continue;
    const int64_t size = shape[shape.rank() - 1 - i];
    if (size != 1) at += position * step;
    step *= size;
  }
  return values[at];
}

void CheckBinary(const BinaryCase& test, const Shape& a_shape,
                 const Shape& b_shape, const Shape& y_shape,
                 RandomValues& random) {
  SCOPED_TRACE(testing::Message() << test.op << " of " << a_shape.ToString()
                                  << " and " << b_shape.ToString());
  const auto a = random.Floats(a_shape.element_count());
  const auto b = random.Floats(b_shape.element_count());
  for (const int threads : {1, 2}) {
    auto y = Nans(y_shape.element_count());
    KernelRunner(test.domain, test.op)
        .Input(Tensor(a_shape, a.data()))
        .Input(Tensor(b_shape, b.data()))
        .Output(Tensor(y_shape, y.data()))
        .Run(threads);
    for (int64_t i = 0; i < y_shape.element_count(); ++i) {
      const double wanted = test.function(Broadcast(a, a_shape, y_shape, i),
                                          Broadcast(b, b_shape, y_shape, i));
      ASSERT_NEAR(y[i], wanted, 1e-6 * std::abs(wanted) + 1e-6) << i;
    }
  }
}

TEST(BinaryTest, AgreesWithTheFunction) {
  RandomValues random(2);
  for (const BinaryCase& test : kBinaryCases) {
    for (const int64_t n : kSizes) {
      CheckBinary(test, {n}, {n}, {n}, random);
    }
    CheckBinary(test, {}, {}, {}, random);
  }
}

TEST(BinaryTest, Broadcasts) {
  RandomValues random(3);
  const struct {
    Shape large, small;
  } shapes[] = {
      {{5, 7}, {}},           {{5, 7}, {1}},
      {{5, 7}, {7}},          {{5, 7}, {1, 7}},
      {{5, 7}, {5, 1}},       {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 20}, {3, 1}},   {{2, 3, 4}, {3, 4}},
      {{2, 3, 4}, {2, 3, 1}}, {{1, 5}, {5}},
      {{0, 4}, {4}},          {{4, 0}, {4, 1}},
      {{300, 200}, {200}},    {{300, 200}, {1, 1}},
      {{300, 200}, {300, 1}}, {{2, 33, 500}, {33, 1}},
  };
  for (const BinaryCase& test : kBinaryCases) {
    if (test.domain != kOnnx) continue;
    for (const auto& [large, small] : shapes) {
      CheckBinary(test, large, small, large, random);
      CheckBinary(test, small, large, large, random);
    }
  }
}

TEST(BinaryTest, BroadcastsAlongSeparateAxesAndBothWays) {
  RandomValues random(4);
  const struct {
    Shape a, b, y;
  } shapes[] = {
      {{3, 1}, {2}, {3, 2}},
      {{2, 3, 5, 20}, {2, 1, 1, 20}, {2, 3, 5, 20}},
      {{2, 3, 5, 20}, {3, 1, 20}, {2, 3, 5, 20}},
      {{4, 1, 33}, {1, 5, 1}, {4, 5, 33}},
      {{3, 1, 4, 1}, {2, 1, 17}, {3, 2, 4, 17}},
      {{2, 1, 0}, {3, 1}, {2, 3, 0}},
  };
  for (const BinaryCase& test : kBinaryCases) {
    if (test.domain != kOnnx) continue;
    for (const auto& [a, b, y] : shapes) {
      CheckBinary(test, a, b, y, random);
      CheckBinary(test, b, a, y, random);
    }
  }
}

TEST(BinaryTest, SaysWhyItDeclines) {
  std::vector<float> a(6);
  int64_t number = 0;
  EXPECT_EQ(KernelRunner(kOnnx, "Add")
                .Input(Tensor(Shape{}, &number))
                .Input(Tensor(Shape{}, &number))
                .Output(Tensor(Shape{}, &number))
                .Choose(*CpuExecutionProvider())
                .reason,
            "simd: int64");
  EXPECT_EQ(KernelRunner("example", "Add")
                .Input(Tensor(Shape{3}, a.data()))
                .Choose(*CpuExecutionProvider())
                .reason,
            "no kernel for this op");
}

// A blocked layout passes only where zero padding comes out as zero.
TEST(ElementwiseTest, BlockedLayouts) {
  std::vector<float> x(16);
  std::vector<float> y(16);
  const Shape shape{1, 3, 2};
  const auto choose = [&](bool keeps_zero) {
    KernelRunner runner(kOnnx, "Relu");
    runner.def().keeps_zero = keeps_zero;
    runner.Input(Tensor(shape, x.data()), false, Layout::kBlocked8)
        .Output(Tensor(shape, y.data()));
    return runner.Choose(*CpuExecutionProvider());
  };
  EXPECT_EQ(choose(true).output_layouts,
            std::vector<Layout>{Layout::kBlocked8});
  EXPECT_EQ(choose(true).flops, 16);
  EXPECT_EQ(choose(false).input_layouts, std::vector<Layout>{Layout::kPlain});

  KernelRunner add(kOnnx, "Add");
  add.def().keeps_zero = true;
  add.Input(Tensor(shape, x.data()))
      .Input(Tensor(shape, x.data()), false, Layout::kBlocked16)
      .Output(Tensor(shape, y.data()));
  EXPECT_EQ(add.Choose(*CpuExecutionProvider()).input_layouts,
            (std::vector<Layout>{Layout::kBlocked16, Layout::kBlocked16}));
}

}  // namespace
}  // namespace strop
