// SPDX-License-Identifier: Apache-2.0
//
// What the program writes, and where: nothing that is read or written
// otherwise is overwritten.
#include "tools/golden.h"
#include "tools/program.h"

namespace strop {
namespace {

class Output : public testing::Test {
 protected:
  Output() {
    std::filesystem::copy(golden_.folder, folder_ / "mlp");
    data_ = golden_.TrainInputs(folder_, 2);
  }

  std::string Path(std::string_view name) const {
    return (folder_ / name).string();
  }
  // Into "out" unless `more` says otherwise.
  Arguments Train(const Arguments& more) const {
    return Arguments{"train", Path("mlp"), "--output", Path("out")} + data_ +
           more;
  }
  void ExpectRefused(const Arguments& call, const char* text) const {
    const ProgramResult result = RunProgram(call);
    EXPECT_EQ(result.exit_code, 1) << call.back() << "\n" << result.out;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out/checkpoint"))
        << call.back();
  }

  GoldenCase golden_{"mlp_ce_adamw"};
  TemporaryFolder folder_;
  Arguments data_;
};

TEST_F(Output, SparesTheCheckpointThatTrainingStartsFrom) {
  std::filesystem::copy(golden_.folder / "checkpoint_after", folder_ / "start");
  WriteText(folder_ / "start.data", "weights");
  const std::string before = ReadText(folder_ / "start");
  for (const char* option : {"--metrics", "--profile"}) {
    for (const char* target : {"start", "start.data"}) {
      ExpectRefused(
          Train({"--checkpoint", Path("start"), option, Path(target)}),
          "would overwrite");
    }
  }
  EXPECT_EQ(ReadText(folder_ / "start"), before);
  EXPECT_EQ(ReadText(folder_ / "start.data"), "weights");
}

TEST_F(Output, SparesExternalDataBesideModels) {
  const std::string data = "mlp/eval_model.onnx.data";
  WriteText(folder_ / data, "weights");
  std::filesystem::copy(golden_.folder / "inference.onnx",
                        folder_ / "plain.onnx");
  WriteText(folder_ / "plain.onnx.data", "weights");
  const Arguments eval_data = golden_.EvalInputs(folder_);
  for (const Arguments& call :
       {Train({"--metrics", Path(data)}),
        Arguments{"eval", Path("mlp"), "--dump", Path(data)} + eval_data,
        Arguments{"eval", Path("plain.onnx"), "--dump", Path("plain.onnx.data"),
                  eval_data[0], eval_data[1]},
        Arguments{"inspect", Path("plain.onnx"), "--dump",
                  Path("plain.onnx.data")},
        Arguments{"export", Path("mlp"), "-o", Path(data)}}) {
    ExpectRefused(call, "would overwrite");
  }
  EXPECT_EQ(ReadText(folder_ / data), "weights");
  EXPECT_EQ(ReadText(folder_ / "plain.onnx.data"), "weights");
}

TEST_F(Output, FilesOfOneRunAreDifferentOnes) {
  std::filesystem::create_directory(folder_ / "out");
  for (const char* option : {"--metrics", "--profile"}) {
    for (const char* name : {"out/checkpoint", "out/checkpoint.data",
                             "out/model.onnx", "mlp/../out/model.onnx.data"}) {
      ExpectRefused(Train({option, Path(name)}), "which this command writes");
    }
  }
  ExpectRefused(
      Train({"--metrics", Path("m.json"), "--profile", Path("mlp/../m.json")}),
      "which this command writes");
  ExpectRefused(Train({"--profile", "/dev/null"}), "not a regular file");
  // Lines may go to a device.
  ExpectSuccess(RunProgram(Train({"--metrics", "/dev/null"})));
}

TEST_F(Output, ADefaultOutputOfArtifactsIsRefusedToo) {
  std::filesystem::copy(golden_.folder, folder_ / "mlp/trained");
  const std::string before = ReadText(folder_ / "mlp/trained/checkpoint");
  ExpectRefused(Arguments{"train", Path("mlp")} + data_, "never overwritten");
  EXPECT_EQ(ReadText(folder_ / "mlp/trained/checkpoint"), before);
}

TEST_F(Output, MayHoldMetricsAndProfileFromTheFirstRunOn) {
  ExpectSuccess(RunProgram(Arguments{"train", Path("mlp"), "--metrics",
                                     Path("mlp/trained/m.jsonl"), "--profile",
                                     Path("mlp/trained/trace.json")} +
                           data_));
  EXPECT_FALSE(ReadLines(folder_ / "mlp/trained/m.jsonl").empty());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mlp/trained/trace.json"));
}

TEST_F(Output, AnEmptyPathIsAnError) {
  for (const char* option : {"--checkpoint", "--metrics", "--profile"}) {
    EXPECT_EQ(RunProgram(Train({option, ""})).exit_code, 2) << option;
  }
  const ProgramResult result =
      RunProgram(Arguments{"train", Path("mlp"), "--output", ""} + data_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("wanted a path"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "mlp/trained"));
}

// A run may go on from what is in its output folder, under other terms.
TEST_F(Output, MayHoldTheStart) {
  ExpectSuccess(RunProgram(Train({})));
  ExpectSuccess(RunProgram(Train({"--checkpoint", Path("out/checkpoint")})));
}

}  // namespace
}  // namespace strop
