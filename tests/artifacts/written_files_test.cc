// SPDX-License-Identifier: Apache-2.0
//
// What lands in the folder: models beyond a limit keep their tensors beside
// them, sources stay, and notes tell what was left out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "artifacts/model_check.h"
#include "artifacts/training_graphs.h"
#include "graph/onnx_io.h"
#include "tools/support.h"

namespace strop {
namespace {

using std::filesystem::path;

class WrittenFiles : public testing::Test {
 protected:
  static void Write(const path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  static std::string Read(const path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  Environment environment_;
  const TemporaryFolder own_;
  const path folder_ = own_.path();
};

// Only w trains; v and u stay in the models.
ModelBuilder Frozen() {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Parameter("v", {3, 40});
  m.Parameter("u", {40, 3});
  m.Op("MatMul", {"x", "w"}, "a");
  m.Op("MatMul", {"a", "v"}, "b");
  m.Op("MatMul", {"b", "u"}, "y");
  m.Output("y");
  return m;
}

ArtifactOptions TrainW() {
  return {.requires_grad = {"w"},
          .losses = {{.kind = LossKind::kMeanSquaredError}}};
}

TEST_F(WrittenFiles, TensorsBeyondTheLimitLieBesideTheModel) {
  const std::string source = Frozen().Encode();
  const auto bytes = std::as_bytes(std::span(source));
  WriteArtifacts(
      EncodeArtifacts(bytes, TrainW(), environment_, {},
                      {.external_threshold = 512, .most_bytes = 1000}),
      TrainW(), folder_ / "split", environment_);
  WriteArtifacts(EncodeArtifacts(bytes, TrainW(), environment_), TrainW(),
                 folder_ / "whole", environment_);
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(folder_ / name);
  };
  EXPECT_TRUE(exists("split/training_model.onnx.data"));
  EXPECT_TRUE(exists("split/eval_model.onnx.data"));
  EXPECT_FALSE(exists("split/optimizer_model.onnx.data"));
  EXPECT_FALSE(exists("whole/training_model.onnx.data"));
  EXPECT_EQ(
      std::filesystem::file_size(folder_ / "split/training_model.onnx.data"),
      2 * 960u);

  // Both train alike.
  std::vector<Numbers64> after;
  for (const char* name : {"split", "whole"}) {
    const path made = folder_ / name;
    CheckpointState state =
        CheckpointState::Load(made / "checkpoint", environment_);
    const ModelIdentifiers models = {
        .train = made / "training_model.onnx",
        .eval = made / "eval_model.onnx",
        .optimizer = made / "optimizer_model.onnx"};
    Module module(models, &state, SessionOptions{}, environment_);
    Optimizer optimizer(models, &state, SessionOptions{}, environment_);
    OwnedTensor x(DataType::kFloat64, Shape{2, 3});
    OwnedTensor target(DataType::kFloat64, Shape{2, 3});
    FromNumbers(Spread({2, 3}).values, x.view());
    FromNumbers(Spread({2, 3}, 5).values, target.view());
    const std::vector<Tensor> inputs = {x.view(), target.view()};
    std::vector<OwnedTensor> outputs;
    module.TrainStep(inputs, &outputs);
    optimizer.Step();
    module.EvalStep(inputs, &outputs);
    after.push_back(ToNumbers(outputs[0].view()));
    after.push_back(ToNumbers(state.ParameterValue("w")));
  }
  EXPECT_EQ(after[0], after[2]);
  EXPECT_EQ(after[1], after[3]);
}

// A model whose external data are called like an artifact.
TEST_F(WrittenFiles, SourcesAreNotReplaced) {
  const EncodedOnnx encoded =
      EncodeOnnx(Frozen().model(), "abcde",
                 {.external_threshold = 0, .force_external = true});
  std::string model = encoded.bytes;
  const std::string wanted = "checkpoint";
  for (size_t at; (at = model.find("abcde.data")) != std::string::npos;)
    model.replace(at, wanted.size(), wanted);
  std::string data;
  for (const auto& part : encoded.data)
    data.append(reinterpret_cast<const char*>(part.data()), part.size());
  Write(folder_ / "model.onnx", model);
  Write(folder_ / "checkpoint", data);
  try {
    GenerateArtifacts(folder_ / "model.onnx", TrainW(), folder_, environment_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(LineWith({error.what()}, {"checkpoint would take the place of"}),
              "")
        << error.what();
  }
  EXPECT_EQ(Read(folder_ / "checkpoint"), data);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "training_model.onnx"));
  GenerateArtifacts(folder_ / "model.onnx", TrainW(), folder_ / "made",
                    environment_);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "made/training_model.onnx"));
}

TEST_F(WrittenFiles, NeitherIsTheModelThroughALink) {
  Write(folder_ / "training_model.onnx", Frozen().Encode());
  const path link = folder_ / "link.onnx";
  std::filesystem::create_symlink(folder_ / "training_model.onnx", link);
  EXPECT_THROW(GenerateArtifacts(link, TrainW(), folder_, environment_), Error);
  EXPECT_EQ(Read(folder_ / "training_model.onnx"), Frozen().Encode());
}

TEST(Notes, OutputsThatCannotBeKeptAreTold) {
  ModelBuilder m = Frozen();
  m.Output("x");
  ArtifactOptions options = TrainW();
  options.losses[0].input = "y";
  options.keep_outputs = true;
  const PreparedModel prepared(m, options);
  EXPECT_NE(LineWith(prepared.report().notes, {"the output \"x\"", "left out"}),
            "");
}

TEST(Notes, SharedStatisticsAreTold) {
  ModelBuilder m(15);
  m.Input("x", {-1, 2, 3});
  for (const char* name : {"scale", "bias", "mean", "variance"})
    m.Constant(name, {2}, {1, 2});
  m.Op("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, "h");
  m.Op("BatchNormalization", {"h", "scale", "bias", "mean", "variance"}, "y");
  m.Output("y");
  const PreparedModel prepared(
      m, {.losses = {{.kind = LossKind::kMeanSquaredError}}});
  EXPECT_NE(LineWith(prepared.report().notes,
                     {"[BatchNormalization \"h\"], [BatchNormalization \"y\"] "
                      "share the running statistics \"mean\""}),
            "");
}

}  // namespace
}  // namespace strop
