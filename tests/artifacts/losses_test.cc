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

}  // namespace
}  // namespace strop
