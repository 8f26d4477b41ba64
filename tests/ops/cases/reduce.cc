// SPDX-License-Identifier: Apache-2.0
#include "ops/cases/cases.h"

namespace strop {

Cases ReduceCases() {
  const Numbers64 x = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, -11, 12};
  const Shape s = {2, 3, 2};
  const auto over = [&](const char* op, Numbers64 axes, int64_t keepdims,
                        Numbers64 expected) {
    OpCase op_case = {.name = op,
                      .op = op,
                      .inputs = {In(s, x)},
                      .attributes = {{"keepdims", keepdims}},
                      .expected = {std::move(expected)}};
    for (const double axis : axes) {
      op_case.name += "/" + std::to_string(static_cast<int>(axis));
    }
    if (axes.empty() && keepdims != 0) op_case.name += "/all kept";
    if (!axes.empty()) {
      const int64_t count = static_cast<int64_t>(axes.size());
      op_case.inputs.push_back(Int64s({count}, std::move(axes)));
    }
    return op_case;
  };
  const auto log2_of = [](double a, double b) {
    return std::log(std::exp(a) + std::exp(b));
  };
  Cases cases = {
      over("ReduceSum", {1}, 0, {9, -4, 5, 30}),
      over("ReduceSum", {0}, 1, {8, 6, 12, 14, -6, 6}),
      over("ReduceSum", {-1}, 1, {-1, 7, -1, 15, 19, 1}),
      over("ReduceSum", {0, 2}, 0, {14, 26, 0}),
      over("ReduceSum", {}, 1, {40}),
      over("ReduceSum", {}, 0, {40}),
      over("ReduceMean", {1}, 0, {3, -4.0 / 3, 5.0 / 3, 10}),
      over("ReduceMean", {}, 0, {40.0 / 12}),
      over("ReduceProd", {2}, 0, {-2, 12, -30, 56, 90, -132}),
      over("ReduceMin", {1}, 0, {1, -6, -11, 8}),
      over("ReduceMax", {1}, 0, {5, 4, 9, 12}),
      over("ReduceL1", {1}, 0, {9, 12, 27, 30}),
      over("ReduceL2", {2}, 0,
           {std::sqrt(5.0), 5, std::sqrt(61.0), std::sqrt(113.0),
            std::sqrt(181.0), std::sqrt(265.0)}),
      over("ReduceSumSquare", {2}, 0, {5, 25, 61, 113, 181, 265}),
      over("ReduceLogSum", {}, 0, {std::log(40.0)}),
      over("ReduceLogSumExp", {2}, 0,
           {log2_of(1, -2), log2_of(3, 4), log2_of(5, -6), log2_of(7, 8),
            log2_of(9, 10), log2_of(-11, 12)}),
      {.name = "ReduceLogSumExp/far",
       .op = "ReduceLogSumExp",
       .inputs = {In({3, 2}, {1000, 1000, -1000, -1000, -kInf, -kInf}),
                  Int64s({1}, {1})},
       .attributes = {{"keepdims", int64_t{0}}},
       .expected = {{1000 + std::log(2.0), -1000 + std::log(2.0), -kInf}}},
      {.name = "ReduceSum/noop",
       .op = "ReduceSum",
       .inputs = {In({2}, {1, 2}), Int64s({0}, {})},
       .attributes = {{"noop_with_empty_axes", int64_t{1}}},
       .expected = {{1, 2}}},
      {.name = "ReduceSum/nothing",
       .op = "ReduceSum",
       .inputs = {In({2, 0}), Int64s({1}, {1})},
       .expected = {{0, 0}}},
      {.name = "ReduceMax/bool",
       .op = "ReduceMax",
       .inputs = {In({3, 2}, {0, 0, 0, 1, 1, 1}), Int64s({1}, {1})},
       .attributes = {{"keepdims", int64_t{0}}},
       .expected = {{0, 1, 1}},
       .types = kOnlyBool},
      {.name = "ReduceMin/bool",
       .op = "ReduceMin",
       .inputs = {In({3, 2}, {0, 0, 0, 1, 1, 1}), Int64s({1}, {1})},
       .attributes = {{"keepdims", int64_t{0}}},
       .expected = {{0, 0, 1}},
       .types = kOnlyBool},
      {.name = "ReduceMax/bool, nothing",
       .op = "ReduceMax",
       .inputs = {In({0, 2}), Int64s({1}, {0})},
       .expected = {{0, 0}},
       .types = kOnlyBool},
      {.name = "ReduceMax/nothing",
       .op = "ReduceMax",
       .inputs = {In({2, 0}), Int64s({1}, {1})},
       .expected = {{-kInf, -kInf}}},
      {.name = "ReduceMin/nothing",
       .op = "ReduceMin",
       .inputs = {In({0}), Int64s({1}, {0})},
       .expected = {{kInf}}},
      {.name = "ReduceSum/scalar",
       .op = "ReduceSum",
       .inputs = {In({}, {3})},
       .expected = {{3}}},
      {.name = "ReduceSum/int64",
       .op = "ReduceSum",
       .inputs = {In({2, 2}, {1, 2, 3, 4}), Int64s({1}, {0})},
       .expected = {{4, 6}},
       .types = {DataType::kInt64, DataType::kInt32}},
      {.name = "ReduceMean/int32",
       .op = "ReduceMean",
       .inputs = {In({2, 2}, {-1, 2, -4, 5}), Int64s({1}, {1})},
       .expected = {{0, 0}},
       .types = {DataType::kInt64, DataType::kInt32}},
      {.name = "ReduceMax/NaN",
       .op = "ReduceMax",
       .inputs = {In({2, 3}, {1, kNan, 3, 1, 2, 3}), Int64s({1}, {1})},
       .expected = {{kNan, 3}}},
      {.name = "ReduceSumTraining",
       .op = "ReduceSumTraining",
       .inputs = {In(s, x), Int64s({2}, {2, 0})},
       .attributes = {{"keepdims", int64_t{0}}},
       .domain = kMs,
       .expected = {{14, 26, 0}}},
      {.name = "ReduceSum/wide columns",
       .op = "ReduceSum",
       .inputs = {InRange({5, 131}, -1, 1), Int64s({1}, {0})}},
      {.name = "ReduceSum/five axes",
       .op = "ReduceSum",
       .inputs = {InRange({3, 2, 4, 2, 3}, -1, 1), Int64s({2}, {1, 3})}},
  };
  return cases;
}

}  // namespace strop
