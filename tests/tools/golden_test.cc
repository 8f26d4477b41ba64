// SPDX-License-Identifier: Apache-2.0
//
// What the program trains, evaluates and exports, against ONNX Runtime's
// numbers.
#include "tools/golden.h"

#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "tools/program.h"

namespace strop {
namespace {

using Json = nlohmann::json;

class GoldenTraining
    : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GoldenTraining, LossesRatesAndParametersAreOrts) {
  const auto [name, threads] = GetParam();
  GoldenCase golden(name);
  TemporaryFolder folder;
  const Json& recipe = golden.recipe;
  const std::string checkpoint = ReadText(golden.folder / "checkpoint");
  const int64_t accumulate = recipe["gradient_accumulation"];
  const int64_t batches = recipe["train_steps"].get<int64_t>() +
                          recipe["resume_train_steps"].get<int64_t>();
  const auto& shape = golden.inputs.at(recipe["user_inputs"][0]).shape();
  Arguments arguments = Arguments{"train", golden.folder.string()} +
                        golden.TrainInputs(folder, batches) +
                        Arguments{"--no-shuffle",
                                  "--batch-size",
                                  std::to_string(shape[1]),
                                  "--steps",
                                  std::to_string(batches / accumulate),
                                  "--accumulate",
                                  std::to_string(accumulate),
                                  "--threads",
                                  threads,
                                  "--lr",
                                  recipe["lr"].dump(),
                                  "--output",
                                  (folder / "out").string(),
                                  "--metrics",
                                  (folder / "m.jsonl").string()};
  if (recipe["schedule"].is_object()) {
    arguments = arguments + Arguments{"--schedule", "linear", "--warmup",
                                      recipe["schedule"]["warmup"].dump()};
  }
  ExpectSuccess(RunProgram(arguments));

  std::vector<float> losses = golden.Expected("train_loss");
  std::vector<float> rates = Values<float>(golden.expected.at("lr"));
  if (golden.expected.contains("train_loss_resumed")) {
    const auto more = golden.Expected("train_loss_resumed");
    losses.insert(losses.end(), more.begin(), more.end());
    const auto more_rates = golden.Expected("lr_resumed");
    rates.insert(rates.end(), more_rates.begin(), more_rates.end());
  }
  const std::vector<Json> lines = ReadLines(folder / "m.jsonl");
  EXPECT_LT(RelativeDifference(Column(lines, "loss"), losses), 5e-6);
  std::vector<float> batch_rates;
  for (float rate : rates) {
    batch_rates.insert(batch_rates.end(), static_cast<size_t>(accumulate),
                       rate);
  }
  EXPECT_LT(RelativeDifference(Column(lines, "lr"), batch_rates), 1e-6);

  const Environment environment;
  const CheckpointState state =
      CheckpointState::Load(folder / "out/checkpoint", environment);
  float largest = 0;
  for (const std::string& parameter : state.ParameterNames()) {
    for (float x : Values<float>(state.ParameterValue(parameter))) {
      largest = std::max(largest, std::abs(x));
    }
  }
  for (const std::string& parameter : state.ParameterNames()) {
    const auto actual = Values<float>(state.ParameterValue(parameter));
    const auto expected = golden.Expected("param_resumed/" + parameter);
    float own = largest / 1000;
    for (float x : expected) own = std::max(own, std::abs(x));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual.at(i), expected[i], 5e-5 * own) << parameter;
    }
  }
  // Artifacts stay as they were, and the trained model is there.
  EXPECT_EQ(ReadText(golden.folder / "checkpoint"), checkpoint);
  EXPECT_FALSE(std::filesystem::exists(golden.folder / "trained"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out/model.onnx"));
}

INSTANTIATE_TEST_SUITE_P(
    Program, GoldenTraining,
    testing::Combine(testing::Values("mlp_ce_adamw", "mlp_ce_adamw_accumulate2",
                                     "lenet_ce_sgd", "mse_regression",
                                     "clip_grad_norm", "custom_loss",
                                     "exported_residual_train", "resnet8_bn"),
                     testing::Values("1", "2")),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
             std::get<1>(info.param);
    });

// A checkpoint that ONNX Runtime wrote is gone on with.
TEST(Program, GoesOnFromOrtsCheckpoint) {
  for (const char* name : {"mlp_ce_adamw", "lenet_ce_sgd", "mse_regression"}) {
    GoldenCase golden(name);
    TemporaryFolder folder;
    const Json& recipe = golden.recipe;
    const int64_t steps = recipe["resume_train_steps"];
    const auto& shape = golden.inputs.at(recipe["user_inputs"][0]).shape();
    Arguments arguments =
        Arguments{"train", golden.folder.string()} +
        golden.TrainInputs(folder, steps, recipe["train_steps"]) +
        Arguments{"--no-shuffle",
                  "--batch-size",
                  std::to_string(shape[1]),
                  "--checkpoint",
                  golden.Path("checkpoint_after"),
                  "--lr",
                  Json(golden.Expected("lr_resumed")[0]).dump(),
                  "--output",
                  (folder / "out").string(),
                  "--metrics",
                  (folder / "m.jsonl").string()};
    // What is left of a linear schedule is one from there to 0.
    if (recipe["schedule"].is_object()) {
      arguments = arguments + Arguments{"--schedule", "linear"};
    }
    ExpectSuccess(RunProgram(arguments));
    const std::vector<Json> lines = ReadLines(folder / "m.jsonl");
    EXPECT_LT(RelativeDifference(Column(lines, "loss"),
                                 golden.Expected("train_loss_resumed")),
              5e-6)
        << name;
    EXPECT_LT(
        RelativeDifference(Column(lines, "lr"), golden.Expected("lr_resumed")),
        1e-6)
        << name;
  }
}

TEST(Program, EvalIsOrts) {
  for (const char* name : {"mlp_ce_adamw", "lenet_ce_sgd", "mse_regression"}) {
    GoldenCase golden(name);
    TemporaryFolder folder;
    for (const char* moment : {"before", "after"}) {
      const std::string checkpoint =
          std::string(moment) == "after" ? "checkpoint_after" : "checkpoint";
      ExpectSuccess(
          RunProgram(Arguments{"eval", golden.folder.string(), "--checkpoint",
                               golden.Path(checkpoint), "--batch-size", "1000",
                               "--dump", (folder / "out.npz").string()} +
                     golden.EvalInputs(folder)));
      const auto arrays = data::ReadNpz(folder / "out.npz", *golden.files);
      const auto outputs =
          golden.recipe["eval_outputs"].get<std::vector<std::string>>();
      for (size_t i = 0; i < outputs.size(); ++i) {
        const auto expected = golden.Expected(
            "eval_outputs_" + std::string(moment) + "/" + std::to_string(i));
        const Tensor& actual = arrays.at(outputs[i]);
        std::vector<float> values;
        if (actual.type() == DataType::kFloat64) {
          values.push_back(static_cast<float>(actual.values<double>()[0]));
        } else {
          values = Values<float>(actual);
        }
        EXPECT_LT(RelativeDifference(values, expected), 1e-5)
            << name << " " << moment << " " << outputs[i];
      }
    }
  }
}

TEST(Program, BatchSizesDoNotChangeTheMean) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  auto loss = [&](const char* batch_size) {
    ExpectSuccess(RunProgram(Arguments{"eval", golden.folder.string(),
                                       "--batch-size", batch_size, "--dump",
                                       (folder / "out.npz").string()} +
                             golden.TrainInputs(folder)));
    const auto arrays = data::ReadNpz(folder / "out.npz", *golden.files);
    return arrays.at("onnx::loss::2").values<double>()[0];
  };
  EXPECT_NEAR(loss("960"), loss("37"), 1e-6);
}

TEST(Program, ExportsTheBareModelsOutputs) {
  for (const char* name :
       {"mlp_ce_adamw", "lenet_ce_sgd", "mse_regression", "l1_regression",
        "bce_multilabel", "clip_grad_norm", "nominal"}) {
    GoldenCase golden(name);
    TemporaryFolder folder;
    const std::string model = (folder / "model.onnx").string();
    ExpectSuccess(
        RunProgram({"export", golden.folder.string(), "-o", model,
                    "--checkpoint", golden.Path("checkpoint_after")}));
    ExpectSuccess(RunProgram(
        Arguments{"eval", model, "--batch-size", "1000", "--dump",
                  (folder / "out.npz").string()} +
        golden.EvalInputs(folder, {golden.recipe["user_inputs"][0]})));
    for (const auto& [output, actual] :
         data::ReadNpz(folder / "out.npz", *golden.files)) {
      EXPECT_LT(RelativeDifference(Values<float>(actual),
                                   golden.Expected("inference/" + output)),
                1e-5)
          << name << " " << output;
    }
  }
}

TEST(Program, ExportsAnyValue) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  const std::string model = (folder / "model.onnx").string();
  ExpectSuccess(RunProgram({"export", golden.folder.string(), "-o", model,
                            "--outputs", "Relu_1_out,logits"}));
  const Json report = Json::parse(RunProgram({"inspect", model, "--json"}).out);
  EXPECT_EQ(report["model"]["outputs"][0]["name"], "Relu_1_out");
  EXPECT_EQ(report["model"]["outputs"][1]["name"], "logits");
  EXPECT_EQ(report["model"]["inputs"].size(), 1u);
  EXPECT_EQ(report["model"]["initializers"].size(), 4u);
}

}  // namespace
}  // namespace strop
