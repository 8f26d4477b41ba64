// SPDX-License-Identifier: Apache-2.0
//
// What cannot train inside If, Loop and Scan is told, and the rest is right.
#include <gtest/gtest.h>

#include "artifacts/body.h"
#include "artifacts/model_check.h"
#include "artifacts/training_graphs.h"
#include "graph/onnx_io.h"

namespace strop {
namespace {

using Names = std::vector<std::string>;

constexpr int64_t kOpset = 15;

// y = c ? branch(w x) : w x.
ModelBuilder WithBranch(Body& branch) {
  ModelBuilder m(kOpset);
  m.Input("c", {}, DataType::kBool);
  m.Input("x", {2, 3});
  m.Parameter("w", {3});
  m.Op("Mul", {"x", "w"}, "h");
  Body other(kOpset);
  other.Capture("h");
  other.Op("Identity", {"h"}, "other_y");
  other.Output("other_y");
  m.Op("If", {"c"}, "y",
       {{"then_branch", branch.Get()}, {"else_branch", other.Get()}});
  m.Op("Mul", {"y", "y"}, "squares");
  m.Op("ReduceSum", {"squares"}, "loss", {{"keepdims", int64_t{0}}});
  m.Output("loss");
  return m;
}

ArtifactOptions NoOptimizer() { return {.optimizer = OptimizerKind::kNone}; }

TEST(Subgraphs, DropoutIsSwitchedOff) {
  Body branch(kOpset);
  branch.Capture("h");
  branch.Constant("ratio", {}, {0.5}, DataType::kFloat32);
  branch.Constant("training", {}, {1}, DataType::kBool);
  branch.Op("Dropout", {"h", "ratio", "training"}, "dropped");
  branch.Output("dropped");
  const ModelBuilder m = WithBranch(branch);
  EXPECT_TRUE(CheckModel(m).can_train());
  PreparedModel prepared(m, NoOptimizer());
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"[Dropout \"dropped\"] in [If \"y\"] drops nothing"}),
            "");
  // The eval loss, of which differences are taken, drops nothing either.
  EXPECT_EQ(
      CompareGradients(prepared, {{"c", {{}, {1}}}, {"x", Spread({2, 3})}}),
      "");
  const Numbers64 x = Spread({2, 3}).values;
  const auto w = prepared.state().ParameterValue("w").values<double>();
  double expected = 0;
  for (size_t i = 0; i < x.size(); ++i)
    expected += x[i] * w[i % 3] * x[i] * w[i % 3];
  EXPECT_NEAR(prepared.Evaluate({{"c", {{}, {1}}}, {"x", Spread({2, 3})}}),
              expected, 1e-12);
}

TEST(Subgraphs, NormalizationKeepsItsStatisticsThatNobodyTrains) {
  Body branch(kOpset);
  branch.Capture("h");
  for (const char* name : {"scale", "bias", "mean", "variance"})
    branch.Capture(name);
  branch.Op("BatchNormalization", {"h", "scale", "bias", "mean", "variance"},
            "normal");
  branch.Output("normal");
  ModelBuilder m = WithBranch(branch);
  for (const char* name : {"scale", "bias", "mean", "variance"})
    m.Constant(name, {3}, {1, 2, 3});
  PreparedModel prepared(m, NoOptimizer());
  EXPECT_EQ(prepared.report().trainable, (Names{"w", "scale", "bias"}));
  EXPECT_NE(
      LineWith(prepared.report().notes,
               {"[BatchNormalization \"normal\"] in [If \"y\"] normalizes by "
                "its running statistics"}),
      "");
  EXPECT_EQ(
      CompareGradients(prepared, {{"c", {{}, {1}}}, {"x", Spread({2, 3})}}),
      "");
  for (const ParameterReport& parameter : CheckModel(m).parameters)
    EXPECT_EQ(parameter.why_not.empty(), parameter.trains) << parameter.name;
  EXPECT_NE(LineWith(CheckModel(m).untrained, {"\"normal\"", "statistics"}),
            "");
}

TEST(Subgraphs, TheirOwnTensorsAreMentioned) {
  Body branch(kOpset);
  branch.Capture("h");
  branch.Constant("inner", {3}, {1, 2, 3});
  branch.Constant("one", {}, {1});
  branch.Op("Mul", {"h", "inner"}, "scaled");
  branch.Op("Add", {"scaled", "one"}, "sum");
  branch.Output("sum");
  const ModelBuilder m = WithBranch(branch);
  const TrainabilityReport report = CheckModel(m);
  EXPECT_EQ(report.untrained.size(), 1u);
  EXPECT_NE(LineWith(report.untrained, {"\"inner\" float64", "in [If \"y\"]",
                                        "inside a sub-graph"}),
            "");
  PreparedModel prepared(m, NoOptimizer());
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"inside a sub-graph", "\"inner\"", "in [If \"y\"]"}),
            "");
}

TEST(Subgraphs, OneInAnotherIsReachedToo) {
  Body inner(kOpset);
  inner.Capture("h");
  inner.Constant("deep", {3}, {1, 2, 3});
  inner.Op("Mul", {"h", "deep"}, "deep_y");
  inner.Output("deep_y");
  Body same(kOpset);
  same.Capture("h");
  same.Op("Identity", {"h"}, "same_y");
  same.Output("same_y");
  Body branch(kOpset);
  branch.Capture("h");
  branch.Capture("c");
  branch.Branches("c", inner.Get(), same.Get(), "chosen");
  branch.Output("chosen");
  const TrainabilityReport report = CheckModel(WithBranch(branch));
  EXPECT_NE(LineWith(report.untrained,
                     {"\"deep\"", "in [If \"chosen\"] in [If \"y\"]"}),
            "");
}

}  // namespace
}  // namespace strop
