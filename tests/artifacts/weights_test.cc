// SPDX-License-Identifier: Apache-2.0
//
// Which tensors of a model are weights, and what reports tell of the others.
#include <gtest/gtest.h>

#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

ArtifactOptions Mse(Names requires_grad = {}) {
  return {.requires_grad = std::move(requires_grad),
          .losses = {{.kind = LossKind::kMeanSquaredError}},
          .optimizer = OptimizerKind::kNone};
}

std::string OriginOf(const TrainabilityReport& report,
                     const std::string& name) {
  for (const ParameterReport& parameter : report.parameters)
    if (parameter.name == name) return parameter.origin;
  return "no parameter";
}

// (x - mean) / deviation, a layer, a bias, all in Constant nodes.
ModelBuilder WithConstantNodes() {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.ConstantNode("mean", {3}, {0.5, 0.25, 0.125});
  m.ConstantNode("deviation", {1, 3}, {2, 3, 4});
  m.ConstantNode("w", {2, 3}, {1, -1, 0.5, 0.25, 2, -0.5});
  m.ConstantNode("b", {2}, {0.5, -0.5});
  m.Op("Sub", {"x", "mean"}, "centered");
  m.Op("Div", {"centered", "deviation"}, "normal");
  m.Op("Identity", {"w"}, "same");
  m.Op("Transpose", {"same"}, "w_t", {{"perm", Ints{1, 0}}});
  m.Op("MatMul", {"normal", "w_t"}, "h");
  m.Op("Add", {"h", "b"}, "y");
  m.Output("y");
  return m;
}

TEST(Weights, OfConstantNodesTrainWhereALayerReadsThem) {
  PreparedModel prepared(WithConstantNodes(), Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"w", "b"}));
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"values of Constant nodes are trained: w, b"}),
            "");
  EXPECT_NE(
      LineWith(prepared.report().notes, {"tables stay", ": mean, deviation"}),
      "");
  EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})},
                                        {"target", Spread({2, 2}, 5)}}),
            "");
}

TEST(Weights, AreListedWithTheirOrigin) {
  const TrainabilityReport report = CheckModel(WithConstantNodes());
  EXPECT_TRUE(report.can_train());
  EXPECT_EQ(report.parameters.size(), 2u);
  EXPECT_EQ(OriginOf(report, "w"),
            "the value of a Constant node, read through Identity, Transpose");
  EXPECT_EQ(OriginOf(report, "b"), "the value of a Constant node");
  EXPECT_NE(LineWith(report.untrained, {"\"mean\" float64", "a table"}), "");
  EXPECT_NE(LineWith(report.untrained, {"\"deviation\"", "a table"}), "");
}

TEST(Weights, ATableIsTrainedUnderItsNameNotUnderAGlob) {
  EXPECT_EQ(
      PreparedModel(WithConstantNodes(), Mse({"mean", "b"})).report().trainable,
      (Names{"mean", "b"}));
  EXPECT_EQ(PreparedModel(WithConstantNodes(), Mse({"*"})).report().trainable,
            (Names{"w", "b"}));
}

TEST(Weights, AMaskOfAttentionIsATable) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3, 3});
  m.Parameter("w", {3, 3});
  m.ConstantNode("mask", {1, 1, 3}, {0, 0, -1e4});
  m.Op("MatMul", {"x", "w"}, "q");
  m.Op("Transpose", {"x"}, "k", {{"perm", Ints{0, 2, 1}}});
  m.Op("MatMul", {"q", "k"}, "scores");
  m.Op("Add", {"scores", "mask"}, "masked");
  m.Op("Softmax", {"masked"}, "y", {{"axis", int64_t{2}}});
  m.Output("y");
  EXPECT_EQ(PreparedModel(m, Mse()).report().trainable, (Names{"w"}));
  EXPECT_NE(LineWith(CheckModel(m).untrained, {"\"mask\"", "a table"}), "");
}

TEST(Weights, BehindTransposeAndIdentityAreListedAsThat) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {4, 3});
  m.Parameter("v", {4});
  m.Op("Transpose", {"w"}, "w_t", {{"perm", Ints{1, 0}}});
  m.Op("Identity", {"w_t"}, "w_same");
  m.Op("MatMul", {"x", "w_same"}, "h");
  m.Op("Add", {"h", "v"}, "y");
  m.Output("y");
  const TrainabilityReport report = CheckModel(m);
  EXPECT_EQ(OriginOf(report, "w"), "read through Transpose, Identity");
  EXPECT_EQ(OriginOf(report, "v"), "");
}

TEST(Weights, OfFewBitsStayAndPassTheGradientOn) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Constant("quantized", {3, 2}, {1, -2, 3, -4, 5, -6}, DataType::kInt8);
  m.Constant("scale", {}, {0.25}, DataType::kFloat32);
  m.Constant("zero", {}, {0}, DataType::kInt8);
  m.Op("Identity", {"quantized"}, "same");
  m.Op("DequantizeLinear", {"same", "scale", "zero"}, "small");
  m.Op("Cast", {"small"}, "v",
       {{"to", static_cast<int64_t>(DataType::kFloat64)}});
  m.Op("MatMul", {"x", "w"}, "h");
  m.Op("MatMul", {"h", "v"}, "y");
  m.Output("y");
  const TrainabilityReport report = CheckModel(m);
  EXPECT_TRUE(report.can_train());
  EXPECT_NE(LineWith(report.untrained,
                     {"\"quantized\" int8", "not trained, the gradient passes",
                      "read through Identity, DequantizeLinear, Cast"}),
            "");
  PreparedModel prepared(m, Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"w"}));
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"quantized weights stay", ": quantized"}),
            "");
  EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})},
                                        {"target", Spread({2, 2}, 5)}}),
            "");
}

TEST(Weights, AreFoundBehindAnyNumberOfNodes) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.ConstantNode("w", {3, 2}, {1, -1, 0.5, 0.25, 2, -0.5});
  std::string last = "w";
  for (size_t i = 0; i < 20000; ++i)
    last = m.Op("Identity", {last}, "w_" + std::to_string(i));
  m.Op("MatMul", {"x", last}, "y");
  m.Output("y");
  const TrainabilityReport report = CheckModel(m);
  EXPECT_TRUE(report.can_train());
  EXPECT_LT(OriginOf(report, "w").size(), 200u);
}

TEST(Weights, RunningStatisticsAreToldToBeThat) {
  ModelBuilder m(13);
  m.Input("x", {-1, 2, 3});
  for (const char* name : {"scale", "bias", "mean", "variance"})
    m.Constant(name, {2}, {1, 2});
  m.Op("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, "y");
  m.Output("y");
  for (const ParameterReport& parameter : CheckModel(m).parameters) {
    const bool is_statistic =
        parameter.name == "mean" || parameter.name == "variance";
    EXPECT_EQ(parameter.trains, !is_statistic) << parameter.name;
    if (is_statistic) {
      EXPECT_EQ(parameter.why_not, "running statistics");
    }
  }
}

}  // namespace
}  // namespace strop
