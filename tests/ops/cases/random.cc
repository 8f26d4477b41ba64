// SPDX-License-Identifier: Apache-2.0
//
// Random ops where chance has no say; random_test.cc looks at the numbers.
#include "ops/cases/cases.h"

namespace strop {

Cases RandomCases() {
  const std::vector<int64_t> two_by_two = {2, 2};
  const CaseAttributes same_number = {{"low", 1.5f}, {"high", 1.5f}};
  const CaseAttributes no_spread = {{"mean", -2.0f}, {"scale", 0.0f}};
  const auto with = [](CaseAttributes attributes, const char* name,
                       Attribute::Value value) {
    attributes.emplace_back(name, std::move(value));
    return attributes;
  };
  return {
      {.name = "RandomUniform",
       .op = "RandomUniform",
       .inputs = {},
       .attributes = with(same_number, "shape", two_by_two),
       .expected = {{1.5, 1.5, 1.5, 1.5}}},
      {.name = "RandomUniform/scalar, float64",
       .op = "RandomUniform",
       .inputs = {},
       .attributes = with(with(same_number, "shape", std::vector<int64_t>{}),
                          "dtype", int64_t{11}),
       .expected = {{1.5}}},
      {.name = "RandomUniform/empty",
       .op = "RandomUniform",
       .inputs = {},
       .attributes = {{"shape", std::vector<int64_t>{0, 3}}},
       .expected = {{}}},
      {.name = "RandomUniformLike",
       .op = "RandomUniformLike",
       .inputs = {In({3})},
       .attributes = same_number,
       .expected = {{1.5, 1.5, 1.5}},
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                 DataType::kBfloat16}},
      {.name = "RandomNormal",
       .op = "RandomNormal",
       .inputs = {},
       .attributes = with(no_spread, "shape", two_by_two),
       .expected = {{-2, -2, -2, -2}}},
      {.name = "RandomNormalLike/float16 from int64",
       .op = "RandomNormalLike",
       .inputs = {Int64s({2}, {1, 2})},
       .attributes = with(no_spread, "dtype", int64_t{10}),
       .expected = {{-2, -2}}},
      {.name = "Bernoulli",
       .op = "Bernoulli",
       .inputs = {In({4}, {0, 1, 1, 0})},
       .expected = {{0, 1, 1, 0}}},
      {.name = "Bernoulli/bool",
       .op = "Bernoulli",
       .inputs = {In({2, 1}, {1, 0})},
       .attributes = {{"dtype", int64_t{9}}},
       .expected = {{1, 0}}},
      {.name = "Bernoulli/bfloat16",
       .op = "Bernoulli",
       .inputs = {In({}, {1})},
       .attributes = {{"dtype", int64_t{16}}},
       .expected = {{1}}},
      {.name = "Multinomial",
       .op = "Multinomial",
       .inputs = {In({2, 3}, {-kInf, 5, -kInf, -3, -kInf, -kInf})},
       .attributes = {{"sample_size", int64_t{3}}},
       .expected = {{1, 1, 1, 0, 0, 0}}},
      {.name = "Multinomial/int64",
       .op = "Multinomial",
       .inputs = {In({1, 2}, {-kInf, 1e30})},
       .attributes = {{"dtype", int64_t{7}}},
       .expected = {{1}}},
      {.name = "Multinomial/empty",
       .op = "Multinomial",
       .inputs = {In({0, 3})},
       .expected = {{}}},
  };
}

}  // namespace strop
