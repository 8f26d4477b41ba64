// SPDX-License-Identifier: Apache-2.0
//
// Which parameters names and globs mean, and what is told of the others.
#include <gtest/gtest.h>

#include "artifacts/body.h"
#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

ArtifactOptions Mse(Names requires_grad = {}, Names frozen_params = {}) {
  return {.requires_grad = std::move(requires_grad),
          .frozen_params = std::move(frozen_params),
          .losses = {{.kind = LossKind::kMeanSquaredError}},
          .optimizer = OptimizerKind::kNone};
}

// Beside its weights a reshape's shape, an exponent, a factor and a slope.
ModelBuilder WithNumbers() {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Constant("fc.shape", {2}, {-1, 3}, DataType::kInt64);
  m.Parameter("fc.w", {3, 3});
  m.Constant("fc.exponent", {3}, {2, 2, 2});
  m.Constant("fc.factor", {}, {1.5});
  m.Constant("slope", {}, {0.25});
  m.ConstantNode("ones", {3, 3}, Numbers64(9, 1));
  m.ConstantNode("two", {}, {2});
  m.Op("Reshape", {"x", "fc.shape"}, "rows");
  m.Op("MatMul", {"rows", "fc.w"}, "h");
  m.Op("Pow", {"h", "fc.exponent"}, "p");
  m.Op("Mul", {"p", "fc.factor"}, "q");
  m.Op("PRelu", {"q", "slope"}, "r");
  m.Op("MatMul", {"r", "ones"}, "s");
  m.Op("Mul", {"s", "two"}, "y");
  m.Output("y");
  return m;
}

TEST(Choices, NumbersAreListedWithTheReason) {
  const Names untrained = CheckModel(WithNumbers()).untrained;
  for (const Names& parts :
       {Names{"\"fc.factor\" float64 ()", "a single number", "if it is named"},
        Names{"\"slope\" float64 ()", "a single number"},
        Names{"\"fc.exponent\" float64 (3)", "an exponent"},
        Names{"\"ones\" float64 (3, 3)", "one number throughout"},
        Names{"numbers in formulas", "two"}}) {
    EXPECT_NE(LineWith(untrained, parts), "") << parts[0];
  }
  PreparedModel prepared(WithNumbers(), Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"fc.w"}));
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"numbers stay", "fc.exponent, fc.factor, slope, ones"}),
            "");
}

TEST(Choices, AGlobThatMeansNothingSaysWhy) {
  const std::string error = ErrorOfPreparing(WithNumbers(), Mse({"fc.f*"}));
  EXPECT_NE(LineWith({error}, {"\"fc.f*\"", "\"fc.factor\"", "a single number",
                               "full name"}),
            "")
      << error;
  const std::string shape = ErrorOfPreparing(WithNumbers(), Mse({"fc.s*"}));
  EXPECT_NE(LineWith({shape}, {"\"fc.shape\"", "int64"}), "") << shape;
  EXPECT_EQ(PreparedModel(WithNumbers(), Mse({"fc.factor"})).report().trainable,
            (Names{"fc.factor"}));
}

TEST(Choices, AGlobFreezesFloatsOnly) {
  EXPECT_EQ(
      PreparedModel(WithNumbers(), Mse({"slope"}, {"fc.*"})).report().frozen,
      (Names{"fc.w"}));
}

ModelBuilder TwoLayers() {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("weight", {3, 3});
  m.Parameter("bias", {3});
  m.Op("Gemm", {"x", "weight", "bias"}, "y");
  m.Output("y");
  return m;
}

TEST(Choices, ANameBeatsAGlob) {
  const ArtifactReport all_but =
      PreparedModel(TwoLayers(), Mse({"*"}, {"bias"})).report();
  EXPECT_EQ(all_but.trainable, (Names{"weight"}));
  EXPECT_EQ(all_but.frozen, (Names{"bias"}));
  const ArtifactReport only =
      PreparedModel(TwoLayers(), Mse({"bias"}, {"*"})).report();
  EXPECT_EQ(only.trainable, (Names{"bias"}));
  EXPECT_EQ(only.frozen, (Names{"weight"}));
  EXPECT_NE(ErrorOfPreparing(TwoLayers(), Mse({"bias"}, {"bias"})), "");
  EXPECT_NE(ErrorOfPreparing(TwoLayers(), Mse({"*"}, {"b*"})), "");
}

TEST(Choices, AnUnknownFrozenNameIsToldOf) {
  const ArtifactReport report =
      PreparedModel(TwoLayers(), Mse({}, {"biass"})).report();
  EXPECT_NE(
      LineWith(report.notes, {"called \"biass\"", "near names are \"bias\""}),
      "");
  ArtifactOptions strict = Mse({}, {"biass"});
  strict.strict_names = true;
  EXPECT_NE(LineWith({ErrorOfPreparing(TwoLayers(), strict)},
                     {"called \"biass\"", "near names are \"bias\""}),
            "");
}

TEST(Choices, AWeightInsideASubgraphIsToldToBeThere) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Input("c", {}, DataType::kBool);
  m.Parameter("w", {3, 3});
  Body inside(13), outside(13);
  inside.Capture("x");
  inside.Constant("v", {3, 3}, Numbers64(9, 0.5));
  inside.Op("MatMul", {"x", "v"}, "a");
  inside.Output("a", {-1, 3});
  outside.Capture("x");
  outside.Capture("w");
  outside.Op("MatMul", {"x", "w"}, "b");
  outside.Output("b", {-1, 3});
  m.Op("If", {"c"}, "y",
       {{"then_branch", inside.Get()}, {"else_branch", outside.Get()}});
  m.Output("y");
  const std::string error = ErrorOfPreparing(m, Mse({"v"}));
  EXPECT_NE(LineWith({error}, {"\"v\"", "inside a sub-graph", "[If \"y\"]"}),
            "")
      << error;
}

// A loss can stand on what comes before.
TEST(Choices, AModelThatEndsInArgMaxCanBeTrained) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("weight", {3, 3});
  m.Op("MatMul", {"x", "weight"}, "h");
  m.Op("ArgMax", {"h"}, "best");
  m.Op("Cast", {"best"}, "number",
       {{"to", static_cast<int64_t>(DataType::kFloat64)}});
  m.Output("number");
  const TrainabilityReport report = CheckModel(m);
  EXPECT_TRUE(report.can_train());
  EXPECT_NE(LineWith(report.outputs, {"h float64 [batch, 3]", "a loss can"}),
            "");
  ArtifactOptions options = Mse();
  options.losses[0].input = "h";
  EXPECT_EQ(PreparedModel(m, options).report().trainable, (Names{"weight"}));
  // Where an output has a gradient, outputs alone count.
  EXPECT_EQ(CheckModel(TwoLayers()).outputs.size(), 1u);
}

// As preparing does: the sizes on the way grow beyond all numbers.
TEST(Choices, CheckTellsThatNoGradientArrives) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  std::string last = m.Op("MatMul", {"x", "w"}, "h");
  for (int i = 0; i < 70; ++i) {
    last = m.Op("Concat", {last, last}, "c" + std::to_string(i),
                {{"axis", int64_t{0}}});
  }
  m.Op("Identity", {last}, "y");
  m.Output("y");
  EXPECT_NE(ErrorOfPreparing(m, Mse()), "");
  EXPECT_NE(LineWith(CheckModel(m).blockers, {"no gradient", "\"w\""}), "");
}

TEST(Choices, AnUnknownOpsetIsRefused) {
  ModelBuilder m(30);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Op("MatMul", {"x", "w"}, "y");
  m.Output("y");
  EXPECT_NE(LineWith({ErrorOfPreparing(m, Mse())}, {"opset 30", "6 to 28"}),
            "");
}

TEST(Choices, AnInputThatTrainsIsNamed) {
  const ArtifactReport report = PreparedModel(TwoLayers(), Mse({"x"})).report();
  EXPECT_EQ(report.trainable, Names{});
  EXPECT_EQ(report.trained_inputs, (Names{"x"}));
}

}  // namespace
}  // namespace strop
