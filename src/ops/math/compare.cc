// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"

namespace strop::ops {

extern constexpr OpDef kEqual = {.name = "Equal",
                                 .inputs = {2, 2},
                                 .infer = BroadcastInputsToBool,
                                 .reference = Comparison<NumbersAndBools>(
                                     [](auto a, auto b) { return a == b; }),
                                 .cheap = true,
                                 .stops_gradient = {0, 1}};

extern constexpr OpDef kLess = {
    .name = "Less",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Numbers>([](auto a, auto b) { return a < b; }),
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kLessOrEqual = {
    .name = "LessOrEqual",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Numbers>([](auto a, auto b) { return a <= b; }),
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kGreater = {
    .name = "Greater",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Numbers>([](auto a, auto b) { return a > b; }),
    .cheap = true,
    .stops_gradient = {0, 1}};

extern constexpr OpDef kGreaterOrEqual = {
    .name = "GreaterOrEqual",
    .inputs = {2, 2},
    .infer = BroadcastInputsToBool,
    .reference = Comparison<Numbers>([](auto a, auto b) { return a >= b; }),
    .cheap = true,
    .stops_gradient = {0, 1}};

namespace {

void InferTest(InferContext& c) {
  c.SetOutput(0, DataType::kBool, c.input(0).shape);
}

}  // namespace

extern constexpr OpDef kIsNaN = {
    .name = "IsNaN",
    .infer = InferTest,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const auto x = c.in<T>(0);
      const auto y = c.out<bool>(0);
      for (size_t i = 0; i < y.size(); ++i) y[i] = std::isnan(x[i]);
    }),
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

extern constexpr OpDef kIsInf = {
    .name = "IsInf",
    .infer = InferTest,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const bool positive = c.node().Int("detect_positive", 1) != 0;
      const bool negative = c.node().Int("detect_negative", 1) != 0;
      const auto x = c.in<T>(0);
      const auto y = c.out<bool>(0);
      for (size_t i = 0; i < y.size(); ++i) {
        y[i] = std::isinf(x[i]) && (x[i] > 0 ? positive : negative);
      }
    }),
    .keeps_zero = true,
    .cheap = true,
    .stops_gradient = {0}};

}  // namespace strop::ops
