// SPDX-License-Identifier: Apache-2.0
//
// Losses by their names: which targets fit, and how several get on.
#include <gtest/gtest.h>

#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

// Scores y of x, and targets t that the model has already.
ModelBuilder Scores(Ints x, Ints w, Ints t, DataType type) {
  ModelBuilder m(13);
  m.Input("x", std::move(x));
  m.Input("t", std::move(t), type);
  m.Parameter("w", std::move(w));
  m.Op("MatMul", {"x", "w"}, "y");
  m.Output("y");
  return m;
}

std::string ErrorOf(const ModelBuilder& m, std::vector<Loss> losses) {
  ArtifactOptions options;
  options.losses = std::move(losses);
  options.optimizer = OptimizerKind::kNone;
  return ErrorOfPreparing(m, options);
}

std::string ErrorOfLabels(Ints x, Ints w, Ints t,
                          DataType type = DataType::kInt64) {
  return ErrorOf(Scores(std::move(x), std::move(w), std::move(t), type),
                 {{.kind = LossKind::kCrossEntropy, .target = "t"}});
}

std::string ErrorOfTargets(Ints x, Ints w, Ints t) {
  return ErrorOf(
      Scores(std::move(x), std::move(w), std::move(t), DataType::kFloat64),
      {{.kind = LossKind::kMeanSquaredError, .target = "t"}});
}

TEST(Losses, LabelsMustHaveTheRankOfTheScoresWithoutClasses) {
  EXPECT_EQ(ErrorOfLabels({-1, 4}, {4, 3}, {-1}), "");
  EXPECT_EQ(ErrorOfLabels({-1, 4}, {4, 3}, {-1}, DataType::kInt32), "");
  for (const int64_t columns : {1, 3, -2}) {
    const std::string error = ErrorOfLabels({-1, 4}, {4, 3}, {-1, columns});
    EXPECT_NE(LineWith({error}, {"labels \"t\" are int64 [batch, ",
                                 "wanted are int64 [batch]"}),
              "")
        << error;
  }
  const std::string error = ErrorOfLabels({-1, 2, 5, 4}, {4, 3}, {-1});
  EXPECT_NE(LineWith({error}, {"labels \"t\" are int64 [batch]",
                               "wanted are int64 [batch, 5, 3]"}),
            "")
      << error;
}

TEST(Losses, LabelsMustBeIntegersAndOneForEach) {
  EXPECT_NE(LineWith({ErrorOfLabels({-1, 4}, {4, 3}, {-1}, DataType::kFloat64)},
                     {"labels \"t\" are float64 [batch]"}),
            "");
  EXPECT_NE(LineWith({ErrorOfLabels({6, 4}, {4, 3}, {5})},
                     {"labels \"t\" are int64 [5]", "wanted are int64 [6]"}),
            "");
}

TEST(Losses, TargetsMayBroadcastToTheOutputButNotBeyond) {
  for (const Ints& fits : {Ints{-1, 3}, Ints{-1, 1}, Ints{3}, Ints{}, Ints{1}})
    EXPECT_EQ(ErrorOfTargets({-1, 4}, {4, 3}, fits), "");
  for (const Ints& misfit : {Ints{-1, 4}, Ints{-1, 3, 1}, Ints{4}}) {
    const std::string error = ErrorOfTargets({-1, 4}, {4, 3}, misfit);
    EXPECT_NE(LineWith({error}, {"targets \"t\" are float64 [",
                                 "wanted are float64 [batch, 3]"}),
              "")
        << error;
  }
  EXPECT_NE(LineWith({ErrorOfTargets({-1, 4}, {4, 1}, {-1})},
                     {"targets \"t\" are float64 [batch]",
                      "wanted are float64 [batch, 1]"}),
            "");
}

ArtifactReport ReportOf(const ModelBuilder& m, std::vector<Loss> losses) {
  ArtifactOptions options;
  options.losses = std::move(losses);
  options.optimizer = OptimizerKind::kNone;
  return PreparedModel(m, options).report();
}

TEST(Losses, SeveralOfOneOutputShareATarget) {
  const ModelBuilder m = Scores({-1, 4}, {4, 3}, {-1}, DataType::kInt64);
  const std::vector<Loss> losses = {{.kind = LossKind::kMeanSquaredError},
                                    {.kind = LossKind::kL1, .input = "y"},
                                    {.kind = LossKind::kCrossEntropy}};
  EXPECT_EQ(ReportOf(m, losses).user_inputs,
            (std::vector<std::string>{"x", "t", "y_target", "y_labels"}));
}

TEST(Losses, OfOtherOutputsDoNot) {
  ModelBuilder m = Scores({-1, 4}, {4, 3}, {-1}, DataType::kInt64);
  m.Op("Relu", {"y"}, "z");
  m.Output("z");
  const std::vector<Loss> losses = {
      {.kind = LossKind::kL1, .input = "z", .target = "y_target"},
      {.kind = LossKind::kMeanSquaredError, .input = "y"}};
  const std::string error = ErrorOf(m, losses);
  EXPECT_NE(LineWith({error}, {"\"y_target\"", "input of another loss"}), "")
      << error;
}

TEST(Losses, CrossEntropyWantsTwoClasses) {
  const std::string error = ErrorOfLabels({-1, 4}, {4, 1}, {-1});
  EXPECT_NE(LineWith({error}, {"two classes", "\"y\" is float64 [batch, 1]"}),
            "")
      << error;
}

TEST(Losses, ProbabilitiesAreNotScores) {
  for (const char* op : {"Softmax", "Sigmoid", "LogSoftmax"}) {
    ModelBuilder m(13);
    m.Input("x", {-1, 4});
    m.Parameter("w", {4, 3});
    m.Op("MatMul", {"x", "w"}, "h");
    m.Op(op, {"h"}, "y");
    m.Output("y");
    const std::vector<std::string> notes =
        ReportOf(m, {{.kind = LossKind::kCrossEntropy}}).notes;
    EXPECT_EQ(
        LineWith(notes, {"\"y\"", "looks like probabilities", "\"h\""}).empty(),
        std::string(op) == "LogSoftmax");
  }
}

TEST(Losses, OptimizersUpdateNo16Bits) {
  ModelBuilder m(13);
  m.Input("x", {-1, 4}, DataType::kFloat16);
  m.Constant("half", {4, 3}, Numbers64(12, 0.5), DataType::kFloat16);
  m.Op("MatMul", {"x", "half"}, "h");
  m.Op("Cast", {"h"}, "wide",
       {{"to", static_cast<int64_t>(DataType::kFloat64)}});
  m.Parameter("w", {3, 3});
  m.Op("MatMul", {"wide", "w"}, "y");
  m.Output("y");
  ArtifactOptions options = {.losses = {{.kind = LossKind::kMeanSquaredError}}};
  const std::string error = ErrorOfPreparing(m, options);
  EXPECT_NE(LineWith({error}, {"\"half\" (float16)", "--freeze"}), "") << error;
  options.frozen_params = {"half"};
  EXPECT_EQ(ErrorOfPreparing(m, options), "");
  options.frozen_params = {};
  options.optimizer = OptimizerKind::kNone;
  EXPECT_EQ(ErrorOfPreparing(m, options), "");
  for (const ParameterReport& parameter : CheckModel(m).parameters) {
    EXPECT_EQ(parameter.trains, parameter.name == "w");
    EXPECT_EQ(parameter.why_not.starts_with("float16"),
              parameter.name == "half");
  }
}

}  // namespace
}  // namespace strop
