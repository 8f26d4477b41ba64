// SPDX-License-Identifier: Apache-2.0
//
// Floats of several types in one node, and types that few models use.
// Expected values come from onnx's ReferenceEvaluator.
#include "ops/cases/cases.h"

namespace strop {
namespace {

constexpr DataType k16 = DataType::kFloat16, k32 = DataType::kFloat32,
                   k64 = DataType::kFloat64;
// As far as float16 tells numbers apart.
constexpr double kHalfTolerance = 1e-3;

OpCase Attend(std::string name, DataType value, CaseInput mask, Numbers64 y) {
  return {
      .name = "Attention/" + name,
      .op = "Attention",
      .inputs = {In({1, 1, 2, 1}, {1, 0}), In({1, 1, 2, 1}, {0, std::log(3.0)}),
                 Typed(value, {1, 1, 2, 2}, {4, 8, 8, 16}), std::move(mask)},
      .attributes = {{"scale", 1.0f}},
      .outputs = "101",
      .expected = {std::move(y), {}, {4, 8, 8, 16}}};
}

Cases MixedAttention() {
  const Numbers64 no_mask = {7, 14, 6, 12};
  const Numbers64 integers = {1, 0, -2, 3};
  const Numbers64 integers_y = {6.0985326766967773, 12.197065353393555,
                                7.9732289314270020, 15.946457862854004};
  const Numbers64 floats = {0, -1.5, -kInf, 2};
  const Numbers64 floats_y = {5.6039161682128906, 11.207832336425781, 8, 16};
  return {
      Attend("values in float64", k64, Omitted(), no_mask),
      Attend("values in float16", k16, Omitted(), no_mask),
      Attend("values in bfloat16", DataType::kBfloat16, Omitted(), no_mask),
      Attend("mask in int64", k32, Int64s({2, 2}, integers), integers_y),
      Attend("mask in int8", k16, Typed(DataType::kInt8, {2, 2}, integers),
             integers_y),
      Attend("mask in uint16", k64,
             Typed(DataType::kUint16, {2, 2}, {3, 2, 0, 5}), integers_y),
      Attend("mask in float16", k32, Typed(k16, {2, 2}, floats), floats_y),
      Attend("mask in float64", k32, Typed(k64, {2, 2}, floats), floats_y),
  };
}

OpCase BatchNorm(std::string name, DataType x, DataType scale, DataType mean,
                 double tolerance) {
  return {
      .name = "BatchNormalization/" + name,
      .op = "BatchNormalization",
      .inputs = {Typed(x, {2, 3, 2},
                       {-5, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, -5}),
                 Typed(scale, {3}, {1, 2, -1}), Typed(scale, {3}, {0.5, 0, 1}),
                 Typed(mean, {3}, {1, 2, 3}), Typed(mean, {3}, {4, 5, 6})},
      .expected = {{-2.4999964237255767, 0.9999994039542628,
                    -3.5777052782468637, 2.6832789586851478, 1.8164959154316374,
                    3.4494877462949120, 1.9999982118627884,
                    5.9604573721117050e-07, -5.3665579173702955,
                    0.8944263195617159, 2.6329918308632747,
                    4.2659836617265490}},
      .types = {x},
      .tolerance = tolerance};
}

OpCase RmsNorm(std::string name, DataType x, DataType scale,
               double tolerance = 2e-6) {
  return {.name = "RMSNormalization/" + name,
          .op = "RMSNormalization",
          .inputs = {Typed(x, {2, 3}, {-5, 2, -2, 5, 1, -3}),
                     Typed(scale, {3}, {1, 2, -1})},
          .expected = {{-1.5075560376362467, 1.2060448301089974,
                        0.6030224150544987, 1.4638494820588863,
                        0.5855397928235545, 0.8783096892353317}},
          .types = {x},
          .tolerance = tolerance};
}

Cases MixedNormalization() {
  return {
      BatchNorm("float64 with float32", k64, k32, k32, 2e-6),
      BatchNorm("float32 with float16 and float64", k32, k16, k64, 2e-6),
      BatchNorm("float16 with float32 and float64", k16, k32, k64,
                kHalfTolerance),
      RmsNorm("float64 with float32", k64, k32),
      RmsNorm("float32 with float16", k32, k16, kHalfTolerance),
      RmsNorm("float16 with float32", k16, k32),
  };
}

OpCase Grid(std::string name, DataType x, DataType grid, bool nearest) {
  return {.name = "GridSample/" + name,
          .op = "GridSample",
          .inputs = {Typed(x, {1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
                     Typed(grid, {1, 1, 3, 2}, {-0.5, 0.25, 0.75, -1, 0, 0.5})},
          .attributes = {{"mode", std::string(nearest ? "nearest" : "linear")}},
          .expected = {nearest ? Numbers64{4, 3, 8}
                               : Numbers64{5.375, 1.3125, 7.25}},
          .types = {x}};
}

Cases OtherCases() {
  return {
      Grid("grid in float16", k32, k16, false),
      Grid("float16, grid in float32", k16, k32, false),
      Grid("float64, grid in float16", k64, k16, false),
      Grid("grid in float64", k32, k64, false),
      Grid("int32, grid in float16", DataType::kInt32, k16, true),
      {.name = "LinearAttention/state in float16",
       .op = "LinearAttention",
       .inputs = {In({1, 2, 1}, {1, 1}), In({1, 2, 1}, {2, 3}),
                  In({1, 2, 1}, {5, 7}), Typed(k16, {1, 1, 1, 1}, {1.5})},
       .attributes = {{"q_num_heads", int64_t{1}},
                      {"kv_num_heads", int64_t{1}},
                      {"update_rule", std::string("linear")}},
       .opset = 27,
       .outputs = "11",
       .expected = {{11.5, 32.5}, {32.5}}},
      // The first and the second block share a cell.
      {.name = "Col2Im/bool",
       .op = "Col2Im",
       .inputs = {BoolsOf({1, 2, 3}, {1, 1, 0, 1, 1, 0}), Int64s({2}, {1, 4}),
                  Int64s({2}, {1, 2})},
       .expected = {{1, 1, 1, 0}},
       .types = kOnlyBool},
  };
}

}  // namespace

Cases MixedTypeCases() {
  Cases all;
  for (Cases (*list)() : {MixedAttention, MixedNormalization, OtherCases}) {
    for (OpCase& op_case : list()) all.push_back(std::move(op_case));
  }
  return all;
}

}  // namespace strop
