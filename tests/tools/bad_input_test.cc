// SPDX-License-Identifier: Apache-2.0
//
// What the program says when something is wrong.
#include "tools/golden.h"
#include "tools/program.h"

namespace strop {
namespace {

using Json = nlohmann::json;

struct BadCall {
  const char* name;
  Arguments arguments;
  int exit_code;
  const char* text;  // part of what it says
};

void PrintTo(const BadCall& call, std::ostream* out) { *out << call.name; }

// GOLDEN and TMP in arguments stand for folders.
class BadInput : public testing::TestWithParam<BadCall> {};

TEST_P(BadInput, OneClearErrorAndNothingWritten) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  golden.TrainInputs(folder, 2);
  const float nan = std::nanf("");
  std::vector<float> values(64 * 784, nan);
  data::WriteNpy(folder / "nan.npy", Tensor(Shape{64, 784}, values.data()),
                 *golden.files);
  std::ranges::fill(values, 0.5f);
  data::WriteNpy(folder / "half.npy", Tensor(Shape{64}, values.data()),
                 *golden.files);
  std::vector<int64_t> labels(64, 10);
  data::WriteNpy(folder / "ten.npy", Tensor(Shape{64}, labels.data()),
                 *golden.files);
  WriteText(folder / "half.onnx",
            ReadText(golden.folder / "inference.onnx").substr(0, 300));
  Arguments arguments = GetParam().arguments;
  for (std::string& argument : arguments) {
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"GOLDEN", golden.folder.string()},
          {"TMP", folder.path().string()}}) {
      if (const size_t at = argument.find(key); at != argument.npos) {
        argument.replace(at, key.size(), value);
      }
    }
  }
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.err;
  EXPECT_TRUE(result.err.starts_with("strop: error: ")) << result.err;
  EXPECT_NE(result.err.find(GetParam().text), std::string::npos) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out/checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

Arguments TrainWith(const char* input, const char* labels,
                    const Arguments& more = {}) {
  return Arguments{"train",    "GOLDEN",
                   "--output", "TMP/out",
                   "--input",  std::string("input=TMP/") + input,
                   "--input",  std::string("labels=TMP/") + labels} +
         more;
}

const char kInput[] = "train_input.npy";
const char kLabels[] = "train_labels.npy";

INSTANTIATE_TEST_SUITE_P(
    Program, BadInput,
    testing::Values(
        BadCall{"no_verb", {}, 2, "subcommand"},
        BadCall{"unknown_verb", {"trian"}, 2, "trian"},
        BadCall{"no_input", {"train", "GOLDEN"}, 2, "--input"},
        BadCall{"unknown_option", TrainWith(kInput, kLabels, {"--epoch", "2"}),
                2, "--epoch"},
        BadCall{"both_goals",
                TrainWith(kInput, kLabels, {"--epochs", "1", "--steps", "1"}),
                2, "--epochs"},
        BadCall{"no_epochs", TrainWith(kInput, kLabels, {"--epochs", "0"}), 2,
                "--epochs"},
        BadCall{"bad_schedule",
                TrainWith(kInput, kLabels, {"--schedule", "cosine"}), 2,
                "cosine"},
        BadCall{"warmup_alone", TrainWith(kInput, kLabels, {"--warmup", "3"}),
                2, "--schedule linear"},
        BadCall{"no_equals",
                {"train", "GOLDEN", "--input", "x.npy"},
                2,
                "NAME=VALUE"},
        BadCall{"no_folder",
                {"train", "TMP/none", "--input", "a=b"},
                1,
                "none is not a folder"},
        BadCall{"file_for_folder",
                {"train", "GOLDEN/checkpoint", "--input", "a=b"},
                1,
                "is not a folder"},
        BadCall{"empty_folder",
                {"train", "TMP", "--input", "a=b"},
                1,
                "training_model.onnx"},
        BadCall{"missing_file", TrainWith("none.npy", kLabels), 1, "none.npy"},
        BadCall{"folder_for_file", TrainWith(".", kLabels), 1, "/."},
        BadCall{"wrong_shape", TrainWith(kLabels, kLabels), 1,
                "has shape (?, 784); the file's is (64)"},
        BadCall{"wrong_type", TrainWith(kInput, "half.npy"), 1,
                "the model's input is int64; row 0 holds 0.5"},
        BadCall{"wrong_count",
                {"train", "GOLDEN", "--output", "TMP/out", "--input",
                 "input=TMP/train_input.npy", "--input",
                 "labels=GOLDEN/inputs.npz:eval/labels"},
                1,
                "has 32 rows, but \"input\" has 64"},
        BadCall{"several_arrays",
                {"train", "GOLDEN", "--output", "TMP/out", "--input",
                 "input=GOLDEN/inputs.npz", "--input", "labels=TMP/ten.npy"},
                1,
                "several arrays"},
        BadCall{"unknown_name",
                {"train", "GOLDEN", "--output", "TMP/out", "--input",
                 "image=TMP/train_input.npy"},
                1,
                "the model has no input \"image\"; its inputs are"},
        BadCall{"labels_out_of_range", TrainWith(kInput, "ten.npy"), 1,
                "epoch 1, batch 1"},
        BadCall{"not_a_number", TrainWith("nan.npy", kLabels), 1,
                "no checkpoint was written"},
        BadCall{"output_is_artifacts",
                TrainWith(kInput, kLabels, {"--output", "GOLDEN"}), 2,
                "--output"},
        BadCall{"metrics_in_no_folder",
                TrainWith(kInput, kLabels, {"--metrics", "TMP/no/m.jsonl"}), 1,
                "m.jsonl"},
        BadCall{
            "wrong_checkpoint",
            TrainWith(kInput, kLabels, {"--checkpoint", "GOLDEN/model.onnx"}),
            1, "model.onnx"},
        BadCall{
            "eval_truncated_model",
            {"eval", "TMP/half.onnx", "--input", "input=TMP/train_input.npy"},
            1,
            "half.onnx"},
        BadCall{"eval_no_accuracy",
                {"eval", "GOLDEN", "--per-class", "--input",
                 "input=TMP/train_input.npy", "--input",
                 "labels=TMP/train_labels.npy"},
                1,
                "no accuracy"},
        BadCall{
            "export_unknown_output",
            {"export", "GOLDEN", "-o", "TMP/out.onnx", "--outputs", "nothing"},
            1,
            "nothing"},
        BadCall{"export_without_target", {"export", "GOLDEN"}, 2, "-o"},
        BadCall{"inspect_nothing", {"inspect", "TMP/none"}, 1, "none"},
        BadCall{"inspect_other_file",
                {"inspect", "GOLDEN/recipe.json"},
                1,
                "recipe.json"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Program, ArtifactsAreNeverOverwritten) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "mlp");
  const std::string mlp = (folder / "mlp").string();
  const std::string before = ReadText(folder / "mlp/eval_model.onnx");
  ProgramResult result =
      RunProgram({"export", mlp, "-o", mlp + "/eval_model.onnx"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(ReadText(folder / "mlp/eval_model.onnx"), before);
  result = RunProgram(Arguments{"train", mlp, "--output", mlp} +
                      golden.TrainInputs(folder, 1));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("never overwritten"), std::string::npos);
}

TEST(Program, NoOptionThatWritesOverwritesWhatIsRead) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "mlp");
  std::filesystem::create_symlink("mlp/checkpoint", folder / "link");
  const std::string mlp = (folder / "mlp").string();
  const Arguments data = golden.TrainInputs(folder, 1);
  const std::string out = (folder / "out").string();
  const Arguments train = Arguments{"train", mlp, "--output", out} + data;
  const std::string before = ReadText(folder / "mlp/checkpoint");
  for (const Arguments& call :
       {train + Arguments{"--metrics", mlp + "/checkpoint"},
        train + Arguments{"--profile", (folder / "link").string()},
        Arguments{"eval", mlp, "--dump", mlp + "/checkpoint"} + data,
        Arguments{"inspect", mlp, "--dump", mlp + "/checkpoint"}}) {
    const ProgramResult result = RunProgram(call);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_NE(result.err.find("would overwrite"), std::string::npos)
        << result.err;
    EXPECT_EQ(ReadText(folder / "mlp/checkpoint"), before);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out/checkpoint"));
}

TEST(Program, AStateThatIsNotFiniteIsNotSaved) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  // The loss is finite, and so are the weights, but the squared gradients in
  // the second moments are not.
  const ProgramResult result =
      RunProgram(Arguments{"train", golden.folder.string(), "--output",
                           (folder / "out").string(), "--scale", "input=1e25"} +
                 golden.TrainInputs(folder, 1));
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_NE(result.err.find("momentum1 of parameter"), std::string::npos)
      << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out/checkpoint"));
}

TEST(Program, HugeCountsAreNoOverflow) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const Arguments train =
      Arguments{"train", golden.folder.string(), "--output", out} +
      golden.TrainInputs(folder, 2);
  // All batches of an epoch are one step.
  const ProgramResult result =
      RunProgram(train + Arguments{"--accumulate", "9223372036854775807"});
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("1 steps per epoch"), std::string::npos)
      << result.out;
  EXPECT_TRUE(std::filesystem::exists(folder / "out/checkpoint"));
  const ProgramResult refused =
      RunProgram(train + Arguments{"--batch-size", "99999999999999999999"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("wanted a whole number from 1"), std::string::npos)
      << refused.err;
}

TEST(Program, AFullOutputIsAFailure) {
  GoldenCase golden("mlp_ce_adamw");
  const std::string command = std::string(STROP_PROGRAM) + " inspect " +
                              golden.folder.string() +
                              " --json >/dev/full 2>/dev/null";
  EXPECT_NE(std::system(command.c_str()), 0);
}

TEST(Program, ANonFiniteLossKeepsTheLastGoodCheckpoint) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  const Arguments train = Arguments{"train", golden.folder.string(), "--output",
                                    (folder / "out").string()} +
                          golden.TrainInputs(folder, 2);
  ExpectSuccess(RunProgram(train));
  const std::string good = ReadText(folder / "out/checkpoint");
  const ProgramResult result = RunProgram(
      train + Arguments{"--resume", "--epochs", "50", "--lr", "1e30"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("holds the last good state"), std::string::npos)
      << result.err;
  EXPECT_EQ(ReadText(folder / "out/checkpoint"), good);
}

}  // namespace
}  // namespace strop
