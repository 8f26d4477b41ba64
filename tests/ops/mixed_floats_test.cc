// SPDX-License-Identifier: Apache-2.0
//
// Which types a node has that mixes floats, and which it may not mix.
#include <gtest/gtest.h>

#include "ops/op_runner.h"

namespace strop {
namespace {

constexpr DataType k16 = DataType::kFloat16, k32 = DataType::kFloat32,
                   k64 = DataType::kFloat64;

std::vector<DataType> OutputTypes(const OpCase& op_case) {
  OpRun run(op_case, k32);
  run.RunReference();
  std::vector<DataType> types;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    types.push_back(run.output(i).type());
  }
  return types;
}

using Types = std::vector<DataType>;

// ONNX: Y has the type of the scale.
TEST(MixedFloats, RmsNormalizationGivesTheTypeOfTheScale) {
  for (const DataType scale : {k16, k32, k64}) {
    EXPECT_EQ(
        OutputTypes({.op = "RMSNormalization",
                     .inputs = {In({2, 3}), Typed(scale, {3}, {1, 2, 3})}}),
        Types{scale});
  }
}

// ONNX: Y has the type of X, the running statistics that of the old ones.
TEST(MixedFloats, BatchNormalizationKeepsTheTypeOfTheStatistics) {
  EXPECT_EQ(
      OutputTypes({.op = "BatchNormalization",
                   .inputs = {Typed(k16, {2, 1}, {1, 2}), In({1}), In({1}),
                              Typed(k64, {1}, {1}), Typed(k64, {1}, {1})},
                   .attributes = {{"training_mode", int64_t{1}}},
                   .outputs = "111"}),
      (Types{k16, k64, k64}));
}

// ONNX: Y is like Q, the present of the values like V.
TEST(MixedFloats, AttentionGivesTheTypeOfTheQuery) {
  EXPECT_EQ(OutputTypes({.op = "Attention",
                         .inputs = {In({1, 1, 2, 1}), In({1, 1, 2, 1}),
                                    Typed(k64, {1, 1, 2, 1}, {1, 2})},
                         .outputs = "1111"}),
            (Types{k32, k32, k64, k32}));
}

TEST(MixedFloats, RefusesWhatOnnxDoesNotMix) {
  EXPECT_EQ(ErrorOf({.op = "BatchNormalization",
                     .inputs = {In({2, 1}), In({1}), Typed(k64, {1}, {1}),
                                In({1}), In({1})}}),
            "[BatchNormalization \"n\"] inputs 1 and 2 have different element "
            "types: float32 and float64");
  EXPECT_EQ(
      ErrorOf({.op = "GridSample",
               .inputs = {In({1, 1, 2, 2}),
                          Typed(DataType::kInt32, {1, 1, 1, 2}, {0, 0})}}),
      "[GridSample \"n\"] input 1 must be of a floating-point type, not "
      "int32");
  EXPECT_EQ(ErrorOf({.op = "Attention",
                     .inputs = {In({1, 1, 2, 1}), Typed(k64, {1, 1, 2, 1}, {}),
                                In({1, 1, 2, 1})}}),
            "[Attention \"n\"] inputs 0 and 1 have different element types: "
            "float32 and float64");
}

}  // namespace
}  // namespace strop
