// SPDX-License-Identifier: Apache-2.0
#include "strop/function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "artifacts/model_check.h"

namespace strop {
namespace {

// y = tanh(x w) [n, 2], z = y * y
std::string Net() {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 2});
  m.Op("MatMul", {"x", "w"}, "h");
  m.Op("Tanh", {"h"}, "y");
  m.Op("Mul", {"y", "y"}, "z");
  m.Output("z");
  m.Output("y");
  return m.Encode();
}

struct Results {
  std::vector<Numbers64> outputs, gradients;
};

class Functions : public testing::Test {
 protected:
  Function Make(const FunctionOptions& options) {
    return Function(std::as_bytes(std::span(model_)), options, {},
                    environment_);
  }

  Results Run(const FunctionOptions& options, const std::vector<Feed>& feeds) {
    Function function = Make(options);
    std::vector<OwnedTensor> inputs;
    for (const Feed& feed : feeds) {
      inputs.emplace_back(DataType::kFloat64, Shape(feed.dims));
      FromNumbers(feed.values, inputs.back().view());
    }
    const std::vector<Tensor> views(inputs.begin(), inputs.end());
    std::vector<OwnedTensor> outputs, gradients;
    function.Run(views, &outputs, &gradients);
    Results results;
    for (const OwnedTensor& t : outputs)
      results.outputs.push_back(ToNumbers(t.view()));
    for (const OwnedTensor& t : gradients)
      results.gradients.push_back(ToNumbers(t.view()));
    return results;
  }

  double SumOfOutput(const Feed& x, size_t output, const Numbers64& weights) {
    const Numbers64 values = Run({}, {x}).outputs[output];
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
    return sum;
  }

  void ExpectDifferences(const Feed& x, const Numbers64& gradient,
                         size_t output, const Numbers64& weights) {
    ASSERT_EQ(gradient.size(), x.values.size());
    const double h = 1e-5;
    for (size_t i = 0; i < gradient.size(); ++i) {
      Feed more = x, less = x;
      more.values[i] += h;
      less.values[i] -= h;
      const double slope = (SumOfOutput(more, output, weights) -
                            SumOfOutput(less, output, weights)) /
                           (2 * h);
      EXPECT_NEAR(gradient[i], slope, 1e-8) << i;
    }
  }

  Environment environment_;
  std::string model_ = Net();
  const Feed x_ = Spread({2, 3});
};

TEST_F(Functions, GivesOutputsInOrder) {
  Function function = Make({});
  EXPECT_EQ(function.InputNames(), std::vector<std::string>{"x"});
  EXPECT_EQ(function.OutputNames(), (std::vector<std::string>{"z", "y"}));
  const Results results = Run({}, {x_});
  ASSERT_EQ(results.outputs.size(), 2u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(results.outputs[0][i],
                results.outputs[1][i] * results.outputs[1][i], 1e-15);
  }
}

TEST_F(Functions, GivesAnyValue) {
  const Results results = Run({.outputs = {"h", "x", "y", "y"}}, {x_});
  ASSERT_EQ(results.outputs.size(), 4u);
  EXPECT_NEAR(std::tanh(results.outputs[0][3]), results.outputs[2][3], 1e-15);
  EXPECT_EQ(results.outputs[1], x_.values);
  EXPECT_EQ(results.outputs[2], results.outputs[3]);
}

TEST_F(Functions, DifferentiatesTheFirstOutputByAnInput) {
  const Results results = Run({.wrt = {"x"}}, {x_});
  ASSERT_EQ(results.gradients.size(), 1u);
  ExpectDifferences(x_, results.gradients[0], 0, {1, 1, 1, 1});
}

TEST_F(Functions, DifferentiatesTheNamedOutputTimesASeed) {
  const Numbers64 seed = {1, -2, 0.5, 3};
  const FunctionOptions options = {.wrt = {"x"}, .of = "y", .seeded = true};
  EXPECT_EQ(Make(options).InputNames(),
            (std::vector<std::string>{"x", "y_seed"}));
  const Results results = Run(options, {x_, {{2, 2}, seed}});
  ExpectDifferences(x_, results.gradients[0], 1, seed);
}

TEST_F(Functions, DifferentiatesByParametersAndValuesBetween) {
  const Results results = Run({.wrt = {"w", "h"}, .of = "y"}, {x_});
  ASSERT_EQ(results.gradients.size(), 2u);
  const Numbers64& y = results.outputs[1];
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(results.gradients[1][i], 1 - y[i] * y[i], 1e-15);
  // dw[0][1] = sum over n of x[n][0] dh[n][1]
  EXPECT_NEAR(results.gradients[0][1],
              x_.values[0] * results.gradients[1][1] +
                  x_.values[3] * results.gradients[1][3],
              1e-15);
}

ErrorCode CodeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST_F(Functions, RefuseWhatMakesNoSense) {
  EXPECT_EQ(CodeOf([&] { Make({.wrt = {"nobody"}}); }), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([&] { Make({.outputs = {"nobody"}}); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([&] { Make({.wrt = {"x"}, .of = "nobody"}); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([&] { Make({.wrt = {"z"}, .of = "y"}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([&] { Run({}, {}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf([&] {
              Run({}, {Spread({2, 4})});
            }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace strop
