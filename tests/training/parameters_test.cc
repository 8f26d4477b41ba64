// SPDX-License-Identifier: Apache-2.0
//
// A state's parameters and the flat buffers of a Module, against the same
// conformance list as module_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/golden.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

TEST(Conformance, Line47_ParametersAreReadAndUpdated) {
  Session session;
  CheckpointState& state = session.state;
  state.UpdateParameter("b", FloatTensor({2}, {8, 9}));  // frozen is fine
  EXPECT_EQ(Values(state.ParameterValue("b")), (Floats{8, 9}));
  EXPECT_EQ(ErrorOf([&] { state.ParameterValue("nobody"); }).code,
            ErrorCode::kNotFound);
  EXPECT_EQ(ErrorOf([&] {
              state.UpdateParameter("nobody", FloatTensor({2}, {0, 0}));
            }).code,
            ErrorCode::kNotFound);
  EXPECT_EQ(
      ErrorOf([&] { state.UpdateParameter("w", FloatTensor({1}, {0})); }).code,
      ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] {
              state.UpdateParameter("w", OwnedTensor(DataType::kInt32, {2}));
            }).code,
            ErrorCode::kTypeMismatch);
  EXPECT_EQ(session.w(), (Floats{1, -2}));
}

TEST(Conformance, Line48_ParametersOutliveTheSession) {
  const Environment environment;
  CheckpointState state = State(environment);
  const Models models = Models::Default();
  { Module module(models.identifiers(), &state, {}, environment); }
  state.UpdateParameter("w", FloatTensor({2}, {4, 5}));
  EXPECT_EQ(Values(state.ParameterValue("w")), (Floats{4, 5}));
}

TEST(Conformance, Line49_AnUpdateIsSeenByTheNextStep) {
  Session session;
  session.Step(3, 5);
  session.state.UpdateParameter("w", FloatTensor({2}, {10, 20}));
  EXPECT_EQ(session.Step(3, 5), 3 * 10 + 5 * 20 + 0.75f);
  session.state.ParameterValue("w").values<float>()[0] = 0;
  EXPECT_EQ(session.Step(3, 5), 5 * 20 + 0.75f);
}

TEST(Conformance, Line50_SizesAndBuffersFollowTheTrainingGraph) {
  Session session;
  EXPECT_EQ(session.module.GetParametersSize(), 2);
  EXPECT_EQ(session.module.GetParametersSize(/*trainable_only=*/false), 4);
  OwnedTensor buffer(DataType::kFloat32, {4});
  session.module.CopyParametersToBuffer(buffer, /*trainable_only=*/false);
  // w stands before b among the graph's inputs.
  EXPECT_EQ(Values(buffer), (Floats{1, -2, 0.5f, 0.25f}));
  session.module.CopyBufferToParameters(FloatTensor({4}, {5, 6, 7, 8}),
                                        /*trainable_only=*/false);
  EXPECT_EQ(session.w(), (Floats{5, 6}));
  EXPECT_EQ(Values(session.state.ParameterValue("b")), (Floats{7, 8}));
  session.module.CopyBufferToParameters(FloatTensor({2}, {1, 1}));
  EXPECT_EQ(session.w(), (Floats{1, 1}));
  EXPECT_EQ(session.Step(3, 5), 3 + 5 + 15);
}

TEST(Conformance, Line51_OtherBuffersAreRefused) {
  Session session;
  for (bool trainable_only : {true, false}) {
    const OwnedTensor wrong_size(DataType::kFloat32, {3});
    const OwnedTensor wrong_type(DataType::kFloat64, {trainable_only ? 2 : 4});
    for (const OwnedTensor* buffer : {&wrong_size, &wrong_type}) {
      const ErrorCode wanted = buffer == &wrong_size
                                   ? ErrorCode::kInvalidArgument
                                   : ErrorCode::kTypeMismatch;
      EXPECT_EQ(ErrorOf([&] {
                  session.module.CopyParametersToBuffer(*buffer,
                                                        trainable_only);
                }).code,
                wanted);
      EXPECT_EQ(ErrorOf([&] {
                  session.module.CopyBufferToParameters(*buffer,
                                                        trainable_only);
                }).code,
                wanted);
    }
  }
  EXPECT_EQ(session.w(), (Floats{1, -2}));
}

TEST(Conformance, Line51_ParametersOfOtherTypesAreRefused) {
  Model train = TrainModel();
  Graph& graph = train.graph;
  graph.AddInput("n", ValueType::OfTensor(
                          DataType::kInt64,
                          std::vector{Dimension{.value = 2, .symbol = {}}}));
  Models models = Models::Default();
  models.train = EncodeOnnx(train);
  const Environment environment;
  CheckpointState state = State(environment);
  AddParameter(state, "n", /*requires_grad=*/false, {0, 0});
  ParameterStore& store = state.store();
  std::vector<TensorInfo> infos;
  for (const Parameter& parameter : store.parameters) {
    const bool is_n = parameter.name == "n";
    infos.push_back({is_n ? DataType::kInt64 : DataType::kFloat32, Shape{2}});
  }
  store.AllocateValues(infos);
  Module module(models.identifiers(), &state, {}, environment);
  const OwnedTensor buffer(DataType::kFloat32, {6});
  for (const bool to_buffer : {true, false}) {
    const Thrown thrown = ErrorOf([&] {
      to_buffer ? module.CopyParametersToBuffer(buffer, false)
                : module.CopyBufferToParameters(buffer, false);
    });
    EXPECT_EQ(thrown.code, ErrorCode::kTypeMismatch);
    EXPECT_NE(thrown.text.find("the parameter \"n\" is int64"),
              std::string::npos)
        << thrown.text;
  }
  // The trainable ones are all float32.
  const OwnedTensor trainable(DataType::kFloat32, {2});
  module.CopyParametersToBuffer(trainable, true);
}

TEST(Conformance, Line52_ANominalStateAllowsAndRefuses) {
  const golden::Case golden("nominal");
  golden::TrainingRun run(golden, "nominal_checkpoint", /*threads=*/1);
  Module& module = run.module();
  EXPECT_TRUE(run.state().is_nominal());
  EXPECT_EQ(run.state().ParameterNames().size(), 4u);
  EXPECT_TRUE(run.state().HasParameter("fc1.bias"));
  EXPECT_EQ(module.GetParametersSize(/*trainable_only=*/false), 66);
  EXPECT_EQ(module.GetParametersSize(/*trainable_only=*/true), 59);
  EXPECT_EQ(module.TrainingInputNames(), (Names{"input", "labels"}));
  // The rate may be read and set before values are there.
  EXPECT_EQ(run.optimizer().GetLearningRate(), 0.001f);
  run.optimizer().SetLearningRate(0.25f);
  EXPECT_EQ(run.optimizer().GetLearningRate(), 0.25f);

  const auto batch = golden.Batch(0, module.TrainingInputNames());
  const OwnedTensor buffer(DataType::kFloat32, {66});
  const Names outputs = {"output"};
  const std::function<void()> refused[] = {
      [&] { module.TrainStep(batch, nullptr); },
      [&] { module.EvalStep(batch, nullptr); },
      [&] { run.optimizer().Step(); },
      [&] { module.ExportModelForInferencing("never.onnx", outputs); },
      [&] { module.CopyParametersToBuffer(buffer, false); },
      [&] { run.state().ParameterValue("fc1.bias"); },
      [&] { run.state().UpdateParameter("fc1.bias", buffer); },
  };
  for (const auto& call : refused) {
    EXPECT_EQ(ErrorOf(call).code, ErrorCode::kFailedState);
  }
  EXPECT_NE(
      ErrorOf(refused[0]).text.find("Please load the model parameters first."),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists("never.onnx"));

  const auto path =
      std::filesystem::path(testing::TempDir()) / "line52_checkpoint";
  run.state().Save(path);
  EXPECT_TRUE(CheckpointState::Load(path, run.environment()).is_nominal());
  std::filesystem::remove(path);
}

TEST(Conformance, Line53_ANominalStateIsCompletedWithAllParametersOnly) {
  const golden::Case golden("nominal");
  golden::TrainingRun run(golden, "nominal_checkpoint", /*threads=*/1);
  const OwnedTensor trainable(DataType::kFloat32, {59});
  const OwnedTensor all(DataType::kFloat32, {66});
  EXPECT_EQ(ErrorOf([&] {
              run.module().CopyBufferToParameters(trainable, true);
            }).code,
            ErrorCode::kFailedState);
  EXPECT_EQ(ErrorOf([&] {
              run.module().CopyBufferToParameters(trainable, false);
            }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(run.state().is_nominal());
  run.module().CopyBufferToParameters(all, false);
  EXPECT_FALSE(run.state().is_nominal());
  run.Train(0, 1);
}

TEST(Conformance, Line54_ACompletedNominalRunEqualsACompleteOne) {
  const golden::Case golden("nominal");
  golden::TrainingRun full(golden, "checkpoint", /*threads=*/1);
  golden::TrainingRun device(golden, "nominal_checkpoint", /*threads=*/1);
  OwnedTensor buffer(DataType::kFloat32, {66});
  full.module().CopyParametersToBuffer(buffer, false);
  device.module().CopyBufferToParameters(buffer, false);
  for (golden::TrainingRun* run : {&full, &device}) run->Train(0, 3);
  EXPECT_EQ(device.losses(), full.losses());
  const golden::Named parameters = full.Parameters();
  const golden::Named gradients = full.Gradients();
  for (const auto& [name, value] : device.Parameters()) {
    EXPECT_EQ(Values(value), Values(parameters.at(name))) << name;
  }
  EXPECT_EQ(gradients.size(), 3u);
  for (const auto& [name, value] : device.Gradients()) {
    EXPECT_EQ(Values(value), Values(gradients.at(name))) << name;
  }
}

}  // namespace
}  // namespace strop::tiny
