// SPDX-License-Identifier: Apache-2.0
//
// Files whose exporter merged equal tensors: an Identity of one stands for the
// others.
#include <gtest/gtest.h>

#include "artifacts/model_check.h"

namespace strop {
namespace {

using Names = std::vector<std::string>;

ArtifactOptions Mse() {
  return {.losses = {{.kind = LossKind::kMeanSquaredError}},
          .optimizer = OptimizerKind::kNone};
}

// x, normalized by what the five names stand for.
void AddNormalization(ModelBuilder& m, const std::string& x,
                      const std::string& scale, const std::string& mean,
                      const std::string& variance, const std::string& y) {
  m.Op("BatchNormalization", {x, scale, "bias", mean, variance}, y);
}

ModelBuilder WithVectors(const Names& names) {
  ModelBuilder m(13);
  m.Input("x", {-1, 2, 3});
  for (const std::string& name : names) m.Constant(name, {2}, {1, 2});
  return m;
}

std::string WhyNot(const TrainabilityReport& report, const std::string& name) {
  for (const ParameterReport& parameter : report.parameters)
    if (parameter.name == name) return parameter.why_not;
  return "no parameter";
}

TEST(Untie, StatisticsBehindIdentityAreStatistics) {
  ModelBuilder m = WithVectors({"scale", "bias", "mean", "variance"});
  m.Op("Identity", {"mean"}, "mean_1");
  m.Op("Identity", {"mean_1"}, "mean_2");
  m.Op("Identity", {"variance"}, "variance_1");
  AddNormalization(m, "x", "scale", "mean_2", "variance_1", "y");
  m.Output("y");
  const TrainabilityReport check = CheckModel(m);
  EXPECT_EQ(WhyNot(check, "mean"), "running statistics");
  EXPECT_EQ(WhyNot(check, "variance"), "running statistics");
  PreparedModel prepared(m, Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"scale", "bias"}));
  EXPECT_EQ(prepared.report().frozen, (Names{"mean", "variance"}));
  prepared.Train({{"x", Spread({4, 2, 3})}, {"target", Spread({4, 2, 3}, 5)}});
  EXPECT_NE(ToNumbers(prepared.state().ParameterValue("mean")),
            (Numbers64{1, 2}));
}

// A fresh net, exported: all ones and zeros are merged.
TEST(Untie, MergedTensorsOfANewNetAreTheirOwn) {
  ModelBuilder m = WithVectors({"scale", "bias"});
  m.Op("Identity", {"bias"}, "mean");
  m.Op("Identity", {"scale"}, "variance");
  m.Op("Identity", {"scale"}, "scale_2");
  AddNormalization(m, "x", "scale", "mean", "variance", "h");
  AddNormalization(m, "h", "scale_2", "mean", "variance", "y");
  m.Output("y");
  PreparedModel prepared(m, Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"scale", "bias", "scale_2"}));
  EXPECT_EQ(prepared.report().frozen, (Names{"mean", "variance"}));
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"values of their own: mean, variance, scale_2"}),
            "");
  prepared.Train({{"x", Spread({4, 2, 3})}, {"target", Spread({4, 2, 3}, 5)}});
  EXPECT_EQ(ToNumbers(prepared.state().ParameterValue("scale")),
            (Numbers64{1, 2}));
  EXPECT_NE(ToNumbers(prepared.state().ParameterValue("variance")),
            (Numbers64{1, 2}));
}

TEST(Untie, AWeightMergedWithAnotherTrainsAlone) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Op("Identity", {"w"}, "v");
  m.Op("MatMul", {"x", "w"}, "h");
  m.Op("MatMul", {"h", "v"}, "y");
  m.Output("y");
  PreparedModel prepared(m, Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"w", "v"}));
  EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})},
                                        {"target", Spread({2, 3}, 5)}}),
            "");
  const TrainabilityReport check = CheckModel(m);
  ASSERT_EQ(check.parameters.size(), 2u);
  EXPECT_EQ(check.parameters[1].origin, "merged with \"w\" in the file");
}

// Some tools merge without an Identity.
TEST(Untie, AStatisticIsNeverAWeightToo) {
  ModelBuilder m = WithVectors({"scale", "bias"});
  AddNormalization(m, "x", "scale", "bias", "scale", "y");
  m.Output("y");
  PreparedModel prepared(m, Mse());
  EXPECT_EQ(prepared.report().trainable, (Names{"scale", "bias"}));
  EXPECT_EQ(prepared.report().frozen,
            (Names{"bias_running_mean", "scale_running_var"}));
}

TEST(Untie, AnOutputKeepsItsIdentity) {
  ModelBuilder m = WithVectors({"scale", "bias", "mean"});
  m.Op("Identity", {"scale"}, "variance");
  AddNormalization(m, "x", "scale", "mean", "variance", "y");
  m.Output("y");
  m.Output("variance");
  ArtifactOptions options = Mse();
  options.losses[0].input = "y";
  PreparedModel prepared(m, options);
  EXPECT_EQ(prepared.report().frozen, (Names{"mean", "variance_running_var"}));
}

TEST(Untie, AStatisticOfAConstantNodeIsNoTable) {
  ModelBuilder m = WithVectors({"scale", "bias"});
  m.ConstantNode("mean", {2}, {0.5, 1});
  m.ConstantNode("variance", {2}, {1, 1});
  AddNormalization(m, "x", "scale", "mean", "variance", "y");
  m.Output("y");
  const TrainabilityReport check = CheckModel(m);
  EXPECT_EQ(WhyNot(check, "mean"), "running statistics");
  EXPECT_EQ(WhyNot(check, "variance"), "running statistics");
  EXPECT_EQ(check.untrained, Names{});
  EXPECT_EQ(PreparedModel(m, Mse()).report().frozen,
            (Names{"mean", "variance"}));
}

}  // namespace
}  // namespace strop
