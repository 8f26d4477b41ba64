// SPDX-License-Identifier: Apache-2.0
//
// The distributions of random ops. The numbers are the same in every run, so
// that bounds of four standard deviations hold always or never.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/op_runner.h"

namespace strop {
namespace {

constexpr int kCount = 20000;

Numbers64 Draw(const std::string& op, CaseAttributes attributes,
               std::vector<CaseInput> inputs = {},
               DataType type = DataType::kFloat32) {
  OpCase op_case = {.name = "random",
                    .op = op,
                    .inputs = std::move(inputs),
                    .attributes = std::move(attributes)};
  if (op_case.inputs.empty()) {
    op_case.attributes.emplace_back("shape", std::vector<int64_t>{kCount});
  }
  OpRun run(op_case, type);
  run.RunReference();
  return run.OutputValues(0);
}

double Mean(const Numbers64& x, int power = 1, double center = 0) {
  double sum = 0;
  for (const double value : x) sum += std::pow(value - center, power);
  return sum / static_cast<double>(x.size());
}

// A moment is within four standard deviations of what it should be; `spread`
// is the standard deviation of one number to that power.
void ExpectMoment(const Numbers64& x, int power, double center, double wanted,
                  double spread) {
  EXPECT_NEAR(Mean(x, power, center), wanted,
              4 * spread / std::sqrt(static_cast<double>(x.size())))
      << "power " << power;
}

TEST(Random, UniformNumbersFillTheRange) {
  for (const int64_t dtype : {1, 11}) {
    const Numbers64 x = Draw(
        "RandomUniform", {{"low", -1.0f}, {"high", 3.0f}, {"dtype", dtype}});
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    EXPECT_GE(*least, -1);
    EXPECT_LT(*least, -0.99);
    EXPECT_LT(*most, 3);
    EXPECT_GT(*most, 2.99);
    // Of a width of 4: variance 16 / 12; the fourth power has the mean 3.2
    // and the variance 2^8 / 9 - 3.2^2.
    ExpectMoment(x, 1, 0, 1, std::sqrt(16.0 / 12));
    ExpectMoment(x, 2, 1, 16.0 / 12, std::sqrt(3.2 - 256.0 / 144));
    ExpectMoment(x, 4, 1, 3.2, std::sqrt(256.0 / 9 - 3.2 * 3.2));
  }
}

// Rounding up to `high` would be frequent where few numbers lie between.
TEST(Random, UniformNumbersStayBelowHigh) {
  const CaseAttributes narrow = {{"low", 1024.0f}, {"high", 1025.0f}};
  CaseAttributes half = narrow;
  half.emplace_back("dtype", int64_t{10});
  for (const CaseAttributes& attributes : {narrow, half}) {
    for (const double value : Draw("RandomUniform", attributes)) {
      EXPECT_GE(value, 1024);
      EXPECT_LT(value, 1025);
    }
  }
}

TEST(Random, NormalNumbersHaveTheirMoments) {
  for (const int64_t dtype : {1, 11}) {
    const Numbers64 x = Draw(
        "RandomNormal", {{"mean", 5.0f}, {"scale", 2.0f}, {"dtype", dtype}});
    ExpectMoment(x, 1, 0, 5, 2);
    ExpectMoment(x, 2, 5, 4, 4 * std::sqrt(2.0));
    ExpectMoment(x, 3, 5, 0, 8 * std::sqrt(15.0));
    ExpectMoment(x, 4, 5, 48, 16 * std::sqrt(96.0));
  }
}

// Two elements share a block of random bits.
TEST(Random, NeighboursAreIndependent) {
  for (const char* op : {"RandomNormal", "RandomUniform"}) {
    Numbers64 x = Draw(op, {{"dtype", int64_t{11}}});
    const double mean = Mean(x), variance = Mean(x, 2, mean);
    double products = 0;
    for (size_t i = 0; i + 1 < x.size(); i += 2) {
      products += (x[i] - mean) * (x[i + 1] - mean);
    }
    const double pairs = static_cast<double>(x.size()) / 2;
    EXPECT_NEAR(products / pairs, 0, 4 * variance / std::sqrt(pairs)) << op;
  }
}

TEST(Random, BernoulliGivesOneWithTheProbability) {
  const Numbers64 y =
      Draw("Bernoulli", {}, {In({kCount}, Numbers64(kCount, 0.3))});
  for (const double value : y) EXPECT_TRUE(value == 0 || value == 1);
  ExpectMoment(y, 1, 0, 0.3, std::sqrt(0.3 * 0.7));
}

TEST(Random, MultinomialFollowsTheScores) {
  // Shares of 1/8, 0, 5/8 and 2/8, from scores beyond what exp can take.
  const Numbers64 y =
      Draw("Multinomial", {{"sample_size", int64_t{kCount}}},
           {In({1, 4}, {1000, -1000, 1000 + std::log(5), 1000 + std::log(2)})},
           DataType::kFloat64);
  const double shares[] = {1.0 / 8, 0, 5.0 / 8, 2.0 / 8};
  for (int k = 0; k < 4; ++k) {
    const double share =
        static_cast<double>(std::count(y.begin(), y.end(), k)) / kCount;
    EXPECT_NEAR(share, shares[k],
                4 * std::sqrt(shares[k] * (1 - shares[k]) / kCount))
        << k;
  }
}

TEST(Random, ASeedGivesItsOwnStream) {
  const Numbers64 none = Draw("RandomUniform", {});
  const Numbers64 one = Draw("RandomUniform", {{"seed", 1.0f}});
  const Numbers64 half = Draw("RandomUniform", {{"seed", 1.5f}});
  EXPECT_NE(none, one);
  EXPECT_NE(one, half);
  EXPECT_EQ(one, Draw("RandomUniform", {{"seed", 1.0f}}));
}

TEST(Random, AnInputGivesTheShape) {
  const CaseInput like = In({kCount}, Numbers64(kCount, 7));
  EXPECT_EQ(Draw("RandomUniformLike", {}, {like}), Draw("RandomUniform", {}));
  EXPECT_EQ(Draw("RandomNormalLike", {}, {like}), Draw("RandomNormal", {}));
}

}  // namespace
}  // namespace strop
