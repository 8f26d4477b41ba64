// SPDX-License-Identifier: Apache-2.0
#include "ops/cases/cases.h"

namespace strop {

Cases LogicCases() {
  const auto compare = [](const char* op, Numbers64 expected) {
    return OpCase{
        .name = op,
        .op = op,
        .inputs = {In({5}, {1, 2, 3, kNan, -1}), In({5}, {2, 2, 2, 1, kInf})},
        .expected = {std::move(expected)}};
  };
  const auto logic = [](const char* op, Numbers64 expected) {
    return OpCase{.name = op,
                  .op = op,
                  .inputs = {In({2, 1}, {0, 1}), In({2}, {0, 1})},
                  .expected = {std::move(expected)},
                  .types = kOnlyBool};
  };
  return {
      compare("Equal", {0, 1, 0, 0, 0}),
      compare("Less", {1, 0, 0, 0, 1}),
      compare("LessOrEqual", {1, 1, 0, 0, 1}),
      compare("Greater", {0, 0, 1, 0, 0}),
      compare("GreaterOrEqual", {0, 1, 1, 0, 0}),
      {.name = "Equal/bool",
       .op = "Equal",
       .inputs = {In({2}, {0, 1}), In({}, {1})},
       .expected = {{0, 1}},
       .types = kOnlyBool},
      {.name = "Less/int64",
       .op = "Less",
       .inputs = {In({2, 1}, {0, 5}), In({3}, {-1, 3, 9})},
       .expected = {{0, 1, 1, 0, 0, 1}},
       .types = {DataType::kInt64, DataType::kInt32}},
      logic("And", {0, 0, 0, 1}),
      logic("Or", {0, 1, 1, 1}),
      logic("Xor", {0, 1, 1, 0}),
      {.name = "Not",
       .op = "Not",
       .inputs = {In({3}, {0, 1, 0})},
       .expected = {{1, 0, 1}},
       .types = kOnlyBool},
      {.name = "Where",
       .op = "Where",
       .inputs = {BoolsOf({2, 1}, {1, 0}), In({2}, {1, 2}), In({}, {9})},
       .expected = {{1, 2, 9, 9}},
       .types = {DataType::kFloat32, DataType::kFloat64, DataType::kInt64,
                 DataType::kInt8}},
      {.name = "IsNaN",
       .op = "IsNaN",
       .inputs = {In({3}, {kNan, 1, kInf})},
       .expected = {{1, 0, 0}}},
      {.name = "IsInf",
       .op = "IsInf",
       .inputs = {In({4}, {kNan, 1, kInf, -kInf})},
       .expected = {{0, 0, 1, 1}}},
      {.name = "IsInf/negative",
       .op = "IsInf",
       .inputs = {In({4}, {kNan, 1, kInf, -kInf})},
       .attributes = {{"detect_positive", int64_t{0}}},
       .expected = {{0, 0, 0, 1}}},
      {.name = "Erf/integers",
       .op = "Erf",
       .inputs = {In({3}, {0, 1, 100})},
       .opset = 9,
       .expected = {{0, 0, 1}},
       .types = {DataType::kInt8, DataType::kUint64}},
      {.name = "Clip",
       .op = "Clip",
       .inputs = {In({5}, {-3, -1, 0, 2, kNan}), In({}, {-1}), In({}, {1.5})},
       .expected = {{-1, -1, 0, 1.5, kNan}}},
      {.name = "Clip/below and above",
       .op = "Clip",
       .inputs = {In({5}, {-3, -2, 0.5, 2, 3}), In({}, {-1}), In({}, {1.5})},
       .expected = {{-1, -1, 0.5, 1.5, 1.5}}},
      {.name = "Clip/above",
       .op = "Clip",
       .inputs = {In({4}, {-kInf, -1, 2, kInf}), Omitted(), In({}, {1})},
       .expected = {{-kInf, -1, 1, 1}}},
      {.name = "Clip/open",
       .op = "Clip",
       .inputs = {In({2}, {-kInf, kInf})},
       .expected = {{-kInf, kInf}}},
      {.name = "Clip/int64",
       .op = "Clip",
       .inputs = {In({3}, {-3, 0, 7}), In({}, {-1})},
       .expected = {{-1, 0, 7}},
       .types = kOnlyInt64},
  };
}

}  // namespace strop
