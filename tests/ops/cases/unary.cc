// SPDX-License-Identifier: Apache-2.0
#include "ops/cases/cases.h"

namespace strop {

Cases UnaryCases() {
  const Numbers64 any = {-2.5, -1, -0.3, 0, 0.3, 1, 2.5, 20};
  const Numbers64 positive = {0.01, 0.3, 1, 2.5, 7, 100, 1e6, 1e-6};
  const Numbers64 unit = {-0.95, -0.5, -0.1, 0, 0.1, 0.5, 0.95, 0.25};
  const auto unary = [](const char* op, const Numbers64& x,
                        double (*f)(double)) {
    // What float32 makes of the inputs, so that both types see the same.
    Numbers64 rounded;
    for (const double value : x) {
      rounded.push_back(static_cast<float>(value));
    }
    return OpCase{.name = op,
                  .op = op,
                  .inputs = {In({2, 4}, rounded)},
                  .expected = {Each(rounded, f)}};
  };
  Cases cases = {
      unary("Abs", any, [](double x) { return std::abs(x); }),
      unary("Neg", any, [](double x) { return -x; }),
      unary("Sign", any,
            [](double x) { return x > 0   ? 1.0
                                  : x < 0 ? -1.0
                                          : 0.0; }),
      unary("Ceil", any, [](double x) { return std::ceil(x); }),
      unary("Floor", any, [](double x) { return std::floor(x); }),
      unary("Exp", any, [](double x) { return std::exp(x); }),
      unary("Log", positive, [](double x) { return std::log(x); }),
      unary("Sqrt", positive, [](double x) { return std::sqrt(x); }),
      unary("Reciprocal", positive, [](double x) { return 1 / x; }),
      unary("Erf", any, [](double x) { return std::erf(x); }),
      unary("Sin", any, [](double x) { return std::sin(x); }),
      unary("Cos", any, [](double x) { return std::cos(x); }),
      unary("Tan", unit, [](double x) { return std::tan(x); }),
      unary("Asin", unit, [](double x) { return std::asin(x); }),
      unary("Acos", unit, [](double x) { return std::acos(x); }),
      unary("Atan", any, [](double x) { return std::atan(x); }),
      unary("Sinh", unit, [](double x) { return std::sinh(x); }),
      unary("Cosh", unit, [](double x) { return std::cosh(x); }),
      unary("Asinh", any, [](double x) { return std::asinh(x); }),
      unary("Acosh", {1, 1.5, 2, 3, 4, 5, 10, 100},
            [](double x) { return std::acosh(x); }),
      unary("Atanh", unit, [](double x) { return std::atanh(x); }),
      unary("Sigmoid", any, [](double x) { return 1 / (1 + std::exp(-x)); }),
      unary("Tanh", any, [](double x) { return std::tanh(x); }),
      unary("Softplus", any,
            [](double x) { return std::log(1 + std::exp(x)); }),
      unary("Softsign", any, [](double x) { return x / (1 + std::abs(x)); }),
      unary("Relu", any, [](double x) { return std::max(x, 0.0); }),
      unary("Elu", any, [](double x) { return x < 0 ? std::expm1(x) : x; }),
      unary("Identity", any, [](double x) { return x; }),
      {.name = "Round",
       .op = "Round",
       .inputs = {In({7}, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6})},
       .expected = {{0, 2, 2, 0, -2, 2, -3}}},
      {.name = "Abs/int64",
       .op = "Abs",
       .inputs = {In({3}, {-3, 0, 4})},
       .expected = {{3, 0, 4}},
       .types = {DataType::kInt64, DataType::kInt32, DataType::kInt8}},
      {.name = "Neg/int64",
       .op = "Neg",
       .inputs = {In({3}, {-3, 0, 4})},
       .expected = {{3, 0, -4}},
       .types = {DataType::kInt64, DataType::kInt32, DataType::kInt8}},
      {.name = "Sign/NaN",
       .op = "Sign",
       .inputs = {In({2}, {kNan, -kInf})},
       .expected = {{kNan, -1}}},
      {.name = "Relu/NaN",
       .op = "Relu",
       .inputs = {In({3}, {kNan, -kInf, kInf})},
       .expected = {{kNan, 0, kInf}}},
      {.name = "Sigmoid/far",
       .op = "Sigmoid",
       .inputs = {In({4}, {-1000, 1000, -80, 80})},
       .expected = {{0, 1, 1 / (1 + std::exp(80.0)), 1}}},
      {.name = "Exp/empty",
       .op = "Exp",
       .inputs = {In({2, 0})},
       .expected = {{}}},
      {.name = "Exp/scalar",
       .op = "Exp",
       .inputs = {In({}, {1})},
       .expected = {{std::exp(1.0)}}},
  };
  return cases;
}

}  // namespace strop
