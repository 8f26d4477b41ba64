// SPDX-License-Identifier: Apache-2.0
//
// Gradients at the sizes of models: vector-Jacobian products in float64
// against differences of the function along random directions, and float32 on
// the kernels that train against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "autodiff/one_node.h"
#include "autodiff/real_size_cases.h"
#include "strop/error.h"

namespace strop {
namespace {

constexpr double kTolerance = 1e-6;  // of the norm of a gradient
constexpr double kStep = 1e-4;

// 1 or -1 for each element, as if drawn; another draw for each `draw`.
std::vector<double> RandomSigns(size_t count, uint64_t draw) {
  std::vector<double> signs(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15 + draw * 0xd1b54a32d192ed03;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    signs[i] = (bits >> 63) != 0 ? 1 : -1;
  }
  return signs;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  long double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<long double>(a[i]) * b[i];
  return static_cast<double>(sum);
}

double Norm(const std::vector<double>& a) { return std::sqrt(Dot(a, a)); }

// The derivative of f along u, by a formula of fourth order.
double Difference(SeededFunction& f, std::vector<OwnedTensor>& values,
                  size_t input, const std::vector<double>& u) {
  const auto x = values[input].view().values<double>();
  const std::vector<double> at(x.begin(), x.end());
  const auto value = [&](double steps) {
    for (size_t i = 0; i < at.size(); ++i) x[i] = at[i] + steps * kStep * u[i];
    return f(values);
  };
  const double first = value(1) - value(-1), second = value(2) - value(-2);
  std::copy(at.begin(), at.end(), x.begin());
  return (8 * first - second) / (12 * kStep);
}

// A direction along which the gradient is of the size that is typical for
// random ones, its norm: a wrong factor shows there.
std::vector<double> DirectionFor(const Numbers64& gradient) {
  std::vector<double> u;
  for (uint64_t draw = 0; draw < 32; ++draw) {
    u = RandomSigns(gradient.size(), draw);
    if (std::abs(Dot(gradient, u)) >= 0.5 * Norm(gradient)) break;
  }
  return u;
}

const OpDef* OpOf(const OpCase& op_case) {
  return FindOp(op_case.domain, op_case.op, op_case.opset);
}

void ExpectProductsAgree(const OpCase& op_case) {
  OneNode built = BuildOneNode(op_case, DataType::kFloat64, KnownShapes::kAll);
  const auto gradients = GradientsOf(built);
  SeededFunction f(built);
  bool has_gradient = false;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const size_t slot = built.slots[i];
    if (OpOf(op_case)->stops_gradient.contains(slot)) continue;
    if (gradients[i].empty()) {
      // It is zero: so are the differences.
      const size_t count = built.values[i].view().values<double>().size();
      EXPECT_EQ(Difference(f, built.values, i, RandomSigns(count, 0)), 0)
          << "input " << slot;
      continue;
    }
    has_gradient = true;
    const double norm = Norm(gradients[i]);
    EXPECT_GT(norm, 0) << "input " << slot;
    const std::vector<double> u = DirectionFor(gradients[i]);
    const double product = Dot(gradients[i], u);
    const double expected = Difference(f, built.values, i, u);
    EXPECT_LE(std::abs(product - expected), kTolerance * norm)
        << "input " << slot << ": " << product << " where differences give "
        << expected << ", the norm is " << norm;
  }
  EXPECT_TRUE(has_gradient);
}

void ExpectFloat32Agrees(const OpCase& op_case) {
  const auto gradients = [&](DataType type) {
    return GradientsOf(BuildOneNode(op_case, type, KnownShapes::kAll), type);
  };
  const auto expected = gradients(DataType::kFloat64);
  const auto actual = gradients(DataType::kFloat32);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size()) << "input " << i;
    std::vector<double> error = actual[i];
    for (size_t k = 0; k < error.size(); ++k) error[k] -= expected[i][k];
    EXPECT_LE(Norm(error), op_case.tolerance * Norm(expected[i]))
        << "float input " << i << ": the error has the norm " << Norm(error)
        << ", the gradient " << Norm(expected[i]);
  }
}

void ForEachCase(void (*expect)(const OpCase&)) {
  for (const OpCase& op_case : RealSizeCases()) {
    SCOPED_TRACE(op_case.name);
    try {
      expect(op_case);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(RealSizes, ProductsAgreeWithDifferences) {
  ForEachCase(ExpectProductsAgree);
}

TEST(RealSizes, OfFloat32AreThoseOfFloat64) {
  ForEachCase(ExpectFloat32Agrees);
}

}  // namespace
}  // namespace strop
