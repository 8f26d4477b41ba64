// SPDX-License-Identifier: Apache-2.0
//
// What Module promises of random numbers: drawn anew in each train step, the
// same for the same seed, and going on where a saved run stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

constexpr int64_t kBatch = 200;

// The tiny model with dropout before its sum.
Models WithDropout() {
  Model model = TrainModel();
  Graph& graph = model.graph;
  const ValueId y = graph.Find("y");
  const ValueId dropped = graph.AddValue("dropped");
  Node& sum = graph.node(graph.value(graph.Find("loss")).producer);
  std::replace(sum.inputs.begin(), sum.inputs.end(), y, dropped);
  float ratio = 0.5f;
  bool training = true;
  Node node;
  node.name = "dropout";
  node.op_type = "Dropout";
  node.inputs = {
      y, graph.AddInitializer(TensorData::Copy("ratio", Tensor({}, &ratio))),
      graph.AddInitializer(
          TensorData::Copy("training", Tensor({}, &training)))};
  node.outputs = {dropped};
  graph.AddNode(std::move(node));
  graph.SortNodes();
  Models models = Models::Default();
  models.train = EncodeOnnx(model);
  return models;
}

float LossOfOnes(Module& module) {
  OwnedTensor x(DataType::kFloat32, {kBatch, 2});
  std::ranges::fill(x.values<float>(), 1.0f);
  std::vector<OwnedTensor> outputs;
  module.TrainStep({&x.view(), 1}, &outputs);
  return outputs.at(0).values<float>()[0];
}

std::vector<float> LossesWithSeed(int64_t seed) {
  SetSeed(seed);
  Session session(WithDropout());
  SetSeed(0);
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(LossOfOnes(session.module));
  return losses;
}

TEST(Random, DrawsAnewInEachStepAndRepeatsWithTheSeed) {
  const std::vector<float> losses = LossesWithSeed(1);
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
  EXPECT_EQ(LossesWithSeed(1), losses);
  EXPECT_NE(LossesWithSeed(2), losses);
}

TEST(Random, AFailedStepDrawsNothing) {
  SetSeed(1);
  Session session(WithDropout());
  SetSeed(0);
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) {
    const OwnedTensor wrong(DataType::kFloat32, {1, 3});
    EXPECT_EQ(ErrorOf([&] {
                session.module.TrainStep({&wrong.view(), 1}, nullptr);
              }).code,
              ErrorCode::kInvalidArgument);
    losses.push_back(LossOfOnes(session.module));
  }
  EXPECT_EQ(losses, LossesWithSeed(1));
}

TEST(Random, AResumedRunGoesOn) {
  SetSeed(1);
  Session session(WithDropout());
  std::vector<float> losses;
  for (int i = 0; i < 2; ++i) losses.push_back(LossOfOnes(session.module));
  const auto path =
      std::filesystem::path(testing::TempDir()) / "random_checkpoint";
  session.state.Save(path, /*include_optimizer_state=*/true);
  CheckpointState loaded = CheckpointState::Load(path, session.environment);
  std::filesystem::remove(path);
  EXPECT_TRUE(loaded.PropertyNames().empty());  // it is not a user's property
  const Models models = WithDropout();
  Module resumed(models.identifiers(), &loaded, {}, session.environment);
  SetSeed(0);
  for (int i = 0; i < 2; ++i) losses.push_back(LossOfOnes(resumed));
  EXPECT_EQ(losses, LossesWithSeed(1));
}

// A session draws by the seed that was set when it was made.
TEST(Conformance, Line64_TheSeedMayBeSetBeforeAndAfter) {
  SetSeed(1);
  Session session(WithDropout());
  SetSeed(2);
  std::vector<float> losses;
  for (int i = 0; i < 4; ++i) losses.push_back(LossOfOnes(session.module));
  EXPECT_EQ(losses, LossesWithSeed(1));
  EXPECT_NE(losses, LossesWithSeed(2));
}

TEST(Random, AModelThatDrawsNothingLeavesNoTrace) {
  Session session;
  session.Step(3, 5);
  EXPECT_TRUE(session.state.store().properties.empty());
}

}  // namespace
}  // namespace strop::tiny
