// SPDX-License-Identifier: Apache-2.0
//
// What is asked of the maker of artifacts, and what it says to nonsense. The
// models are those of the golden cases.
#include "strop/artifacts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "artifacts/training_graphs.h"
#include "artifacts/weights.h"
#include "graph/onnx_io.h"
#include "passes/net.h"
#include "tools/support.h"

namespace strop {
namespace {

using std::filesystem::path;

path ModelOf(const std::string& name) {
  return path(STROP_TEST_DATA) / "golden" / name / "model.onnx";
}

class Artifacts : public testing::Test {
 protected:
  ArtifactReport Make(const ArtifactOptions& options,
                      const std::string& name = "lenet_ce_sgd") {
    return GenerateArtifacts(ModelOf(name), options, folder_, environment_);
  }

  // The text of the error; nothing may have been written.
  std::string ErrorOf(const ArtifactOptions& options,
                      const std::string& name = "lenet_ce_sgd") {
    try {
      Make(options, name);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder_));
      return error.what();
    }
    return "";
  }

  static ArtifactOptions CrossEntropy() {
    ArtifactOptions options;
    options.losses = {{.kind = LossKind::kCrossEntropy}};
    return options;
  }

  Environment environment_;
  const TemporaryFolder own_;
  const path folder_ = own_ / "made";
};

TEST_F(Artifacts, GlobsChooseParameters) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"fc?.*"};
  options.frozen_params = {"conv*"};
  const ArtifactReport report = Make(options);
  EXPECT_EQ(report.trainable,
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight",
                                      "fc2.bias"}));
  EXPECT_EQ(report.frozen.size(), 4u);
  const auto state =
      CheckpointState::Load(folder_ / "checkpoint", environment_);
  EXPECT_TRUE(state.RequiresGrad("fc1.weight"));
  EXPECT_FALSE(state.RequiresGrad("conv1.weight"));
}

TEST_F(Artifacts, AllFloatParametersTrainByDefault) {
  EXPECT_EQ(Make(CrossEntropy()).trainable.size(), 8u);
}

TEST_F(Artifacts, RunningStatisticsAreFrozenByThemselves) {
  const ArtifactReport report = Make(CrossEntropy(), "resnet8_bn");
  EXPECT_EQ(report.frozen.size(), 16u);
  for (const std::string& name : report.trainable)
    EXPECT_EQ(name.find("running"), std::string::npos) << name;
}

// x scale turned by tables of cosines and sines, summed up.
TEST_F(Artifacts, TablesOfAnglesTrainOnlyWhereTheyAreNamed) {
  Net net;
  const auto parameter = [&](const char* name, Shape shape, DataType type) {
    const OwnedTensor zeros(type, shape);
    std::ranges::fill(zeros.view().bytes(), std::byte{0});
    return net.graph.AddInitializer(TensorData::Copy(name, zeros.view()));
  };
  const ValueId x = net.Input("x", {1, 3, 8});
  const ValueId scale = parameter("scale", {8}, DataType::kFloat32);
  const ValueId cosines = parameter("cos", {5, 2}, DataType::kFloat32);
  const ValueId sines = parameter("sin", {5, 2}, DataType::kFloat32);
  const ValueId positions = parameter("at", {1}, DataType::kInt64);
  const ValueId scaled = net.Op("Mul", {x, scale}, {"scaled"})[0];
  const ValueId turned = net.Microsoft(
      "RotaryEmbedding", {scaled, positions, cosines, sines}, "turned");
  const ValueId loss = net.Op("ReduceSum", {turned}, {"loss"})[0];
  const Weights weights = FindWeights(net.graph);
  ArtifactOptions options;
  const auto trainable = [&] {
    return ChooseParameters(net.graph, options, loss, weights, {}).trainable;
  };
  EXPECT_EQ(trainable(), std::vector<ValueId>{scale});
  options.requires_grad = {"*"};
  EXPECT_EQ(trainable(), std::vector<ValueId>{scale});
  options.requires_grad = {"cos"};
  EXPECT_EQ(trainable(), std::vector<ValueId>{cosines});
}

TEST_F(Artifacts, KeepTheSourcesOpsetAndIr) {
  Make(CrossEntropy());
  const Model source = ReadOnnx(ModelOf("lenet_ce_sgd"), environment_.files());
  for (const char* name :
       {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx"}) {
    const Model made = ReadOnnx(folder_ / name, environment_.files());
    EXPECT_EQ(made.graph.opset(kOnnx), source.graph.opset(kOnnx)) << name;
    EXPECT_EQ(made.ir_version, source.ir_version) << name;
  }
}

TEST_F(Artifacts, EachCallNumbersAfresh) {
  EXPECT_EQ(Make(CrossEntropy()).loss_name, "onnx::loss::2");
  EXPECT_EQ(Make(CrossEntropy()).loss_name, "onnx::loss::2");
}

TEST_F(Artifacts, NamesCountOnFromThoseOfTheCaller) {
  ArtifactOptions options = CrossEntropy();
  options.names_used = 6;
  const ArtifactReport report = Make(options);
  EXPECT_EQ(report.loss_name, "onnx::loss::8");
  EXPECT_EQ(report.names_used, 12);
}

TEST_F(Artifacts, NothingTrainsWhereOnlyNamesCountAndThereAreNone) {
  ArtifactOptions options = CrossEntropy();
  options.only_named = true;
  EXPECT_NE(ErrorOf(options).find("optimizer was asked for"),
            std::string::npos);
  options.optimizer = OptimizerKind::kNone;
  const ArtifactReport report = Make(options);
  EXPECT_TRUE(report.trainable.empty());
  const Model training =
      ReadOnnx(folder_ / "training_model.onnx", environment_.files());
  const auto inputs = training.graph.inputs();
  EXPECT_EQ(inputs.size(), 3u);
  EXPECT_EQ(training.graph.value_name(inputs.back()), "lazy_reset_grad");
}

TEST_F(Artifacts, ALossDoesNotCompareAValueWithItself) {
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kMeanSquaredError, .target = "output"}};
  EXPECT_NE(ErrorOf(options, "mse_regression").find("with itself"),
            std::string::npos);
}

TEST_F(Artifacts, LossesAreNamedAsOrtNamesThem) {
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kL1}};
  EXPECT_EQ(Make(options, "l1_regression").loss_name,
            "onnx::reducemean_output::5");
  options.losses[0].reduction = Reduction::kSum;
  EXPECT_EQ(Make(options, "l1_regression").loss_name,
            "onnx::reducesum_output::5");
}

TEST_F(Artifacts, NominalCheckpointsHaveNamesOnly) {
  ArtifactOptions options = CrossEntropy();
  options.nominal_checkpoint = true;
  options.prefix = "a_";
  Make(options);
  const auto state =
      CheckpointState::Load(folder_ / "a_nominal_checkpoint", environment_);
  EXPECT_TRUE(state.is_nominal());
  EXPECT_EQ(state.ParameterNames().size(), 8u);
  EXPECT_LT(std::filesystem::file_size(folder_ / "a_nominal_checkpoint"),
            std::filesystem::file_size(folder_ / "a_checkpoint"));
}

TEST_F(Artifacts, WithoutOptimizerThereIsNoOptimizerModel) {
  ArtifactOptions options = CrossEntropy();
  options.optimizer = OptimizerKind::kNone;
  Make(options);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "optimizer_model.onnx"));
}

TEST_F(Artifacts, AnInputMayHaveAGradient) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"input", "fc2.weight"};
  Make(options);
  const Model made =
      ReadOnnx(folder_ / "training_model.onnx", environment_.files());
  EXPECT_TRUE(made.graph.Find("input_grad.accumulation.buffer"));
  EXPECT_TRUE(made.graph.Find("input_grad.accumulation.out"));
}

// --- Bad input

TEST_F(Artifacts, AnUnknownNameOffersNearOnes) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"fc1.wieght"};
  const std::string error = ErrorOf(options);
  EXPECT_NE(error.find("no parameter called \"fc1.wieght\""), std::string::npos)
      << error;
  EXPECT_NE(error.find("\"fc1.weight\" float32 of shape"), std::string::npos)
      << error;
}

TEST_F(Artifacts, AGlobThatMatchesNothingIsAnError) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"nothing*"};
  EXPECT_NE(ErrorOf(options).find("that matches \"nothing*\""),
            std::string::npos);
}

TEST_F(Artifacts, AnIntegerCannotBeTrained) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"const_1"};
  const std::string error = ErrorOf(options, "lstm_last");
  EXPECT_NE(error.find("cannot be trained"), std::string::npos) << error;
}

TEST_F(Artifacts, TrainedAndFrozenAtOnceIsAnError) {
  ArtifactOptions options = CrossEntropy();
  options.requires_grad = {"fc1.weight"};
  options.frozen_params = {"fc1.weight"};
  EXPECT_NE(ErrorOf(options).find("fc1.weight"), std::string::npos);
}

TEST_F(Artifacts, AnUnknownOutputIsAnError) {
  ArtifactOptions options = CrossEntropy();
  options.losses[0].input = "scores";
  EXPECT_NE(ErrorOf(options).find("its outputs are logits"), std::string::npos);
  options = CrossEntropy();
  options.additional_output_names = {"scores"};
  EXPECT_NE(ErrorOf(options).find("\"scores\""), std::string::npos);
}

TEST_F(Artifacts, SeveralOutputsWantAChoice) {
  EXPECT_NE(ErrorOf(CrossEntropy(), "custom_loss")
                .find("boxes_out, kinds_out, scores"),
            std::string::npos);
}

TEST_F(Artifacts, WithoutALossTheFirstOutputMustBeAScalar) {
  EXPECT_NE(ErrorOf({}).find("\"logits\" has rank 2"), std::string::npos);
}

TEST_F(Artifacts, CrossEntropyWantsAnAxisOfClasses) {
  ArtifactOptions options = CrossEntropy();
  options.losses[0].input = "fc1.bias";
  EXPECT_NE(ErrorOf(options).find("has rank 1"), std::string::npos);
}

TEST_F(Artifacts, ALossThatDependsOnNothingIsAnError) {
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kMeanSquaredError, .input = "input"}};
  EXPECT_NE(ErrorOf(options).find("nothing is trainable"), std::string::npos);
  options.requires_grad = {"fc1.weight"};
  EXPECT_NE(ErrorOf(options).find("does not depend on \"fc1.weight\""),
            std::string::npos);
}

TEST_F(Artifacts, CheckTellsWhatTrains) {
  const TrainabilityReport report =
      CheckTrainability(ModelOf("lenet_ce_sgd"), environment_);
  EXPECT_TRUE(report.can_train());
  EXPECT_EQ(report.parameters.size(), 8u);
  EXPECT_EQ(report.outputs.size(), 1u);
}

}  // namespace
}  // namespace strop
