// SPDX-License-Identifier: Apache-2.0
//
// Folders, inspection and help of the strop program.
#include "tools/program.h"

#include "graph/onnx_io.h"
#include "tools/golden.h"

namespace strop {
namespace {

using Json = nlohmann::json;

TEST(Program, TrainsIntoTheFolderAndUsesWhatWasTrained) {
  GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "lenet",
                        std::filesystem::copy_options::recursive);
  const std::string lenet = (folder / "lenet").string();
  const Arguments inputs = golden.TrainInputs(folder);
  const Arguments eval_inputs = golden.EvalInputs(folder);
  ProgramResult result = RunProgram(
      Arguments{"train", lenet, "--lr", "0.05"} + inputs +
      Arguments{"--validation", eval_inputs[1], "--validation", eval_inputs[3],
                "--profile", (folder / "trace.json").string()});
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("epoch 1/1  loss "), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("validation accuracy"), std::string::npos)
      << result.out;
  EXPECT_TRUE(Json::parse(ReadText(folder / "trace.json")).is_array());
  EXPECT_TRUE(std::filesystem::exists(folder / "lenet/trained/model.onnx"));

  result = RunProgram(Arguments{"eval", lenet} + eval_inputs);
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("trained/checkpoint"), std::string::npos);
  EXPECT_NE(result.out.find("accuracy "), std::string::npos) << result.out;
  const ProgramResult untrained =
      RunProgram(Arguments{"eval", lenet, "--checkpoint",
                           (folder / "lenet/checkpoint").string()} +
                 eval_inputs);
  ExpectSuccess(untrained);
  EXPECT_NE(result.out.substr(result.out.find("onnx::loss")),
            untrained.out.substr(untrained.out.find("onnx::loss")));
  // The exported model and the eval model agree on the accuracy.
  const std::string labels =
      eval_inputs[3].substr(eval_inputs[3].find('=') + 1);
  const ProgramResult exported =
      RunProgram({"eval", lenet + "/trained/model.onnx", "--input",
                  eval_inputs[1], "--labels", labels, "--per-class"});
  ExpectSuccess(exported);
  const std::string line = result.out.substr(result.out.find("accuracy"));
  EXPECT_NE(exported.out.find(line.substr(0, line.find('\n'))),
            std::string::npos)
      << exported.out;
  EXPECT_NE(exported.out.find("class "), std::string::npos);
}

// Gives the first dimension of the model's user inputs a number.
void FixBatchSize(const std::filesystem::path& path, int64_t size,
                  FileSystem& files) {
  Model model =
      ReadOnnx(path, files, {.normalize = false, .inline_functions = false});
  for (ValueId id : model.graph.inputs()) {
    ValueType& type = model.graph.value(id).type;
    if (!type.dims || type.dims->empty()) continue;
    if (type.dims->front().symbol != "batch") continue;
    type.dims->front() = {.value = size, .symbol = ""};
    type.encoded.clear();
  }
  WriteOnnx(model, path, files);
}

TEST(Program, AFixedBatchSizeLeavesTheRestOut) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "mlp");
  const std::string mlp = (folder / "mlp").string();
  for (const char* model : {"mlp/training_model.onnx", "mlp/eval_model.onnx"}) {
    FixBatchSize(folder / model, 20, *golden.files);
  }
  const Arguments inputs = golden.TrainInputs(folder, 2);  // 64 samples
  ProgramResult result = RunProgram(
      Arguments{"train", mlp, "--metrics", (folder / "m.jsonl").string()} +
      inputs);
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("fixes the batch size, so that 4 samples are left "
                            "out of each epoch"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(Column(ReadLines(folder / "m.jsonl"), "samples"),
            (std::vector<float>{20, 20, 20}));
  result = RunProgram(Arguments{"eval", mlp} + inputs);
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("samples 60\nnote: "), std::string::npos)
      << result.out;
  result = RunProgram(Arguments{"train", mlp, "--batch-size", "32"} + inputs);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("fix the batch size to 20"), std::string::npos)
      << result.err;
}

TEST(Program, InspectsAFolder) {
  GoldenCase golden("mlp_ce_adamw");
  const ProgramResult result =
      RunProgram({"inspect", golden.folder.string(), "--json", "--plan"});
  ExpectSuccess(result);
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report["kind"], "artifacts");
  const Json& train = report["train_model"];
  ASSERT_EQ(train["inputs"].size(), 2u);  // hidden ones are left out
  EXPECT_EQ(train["inputs"][0]["name"], "input");
  EXPECT_TRUE(
      train["inputs"][0]["type"].get<std::string>().starts_with("float32["));
  EXPECT_EQ(train["outputs"].size(), 1u);
  EXPECT_EQ(train["opsets"]["ai.onnx"], 14);
  EXPECT_EQ(train["ir_version"], 7);
  EXPECT_EQ(train["ops"]["com.microsoft::InPlaceAccumulatorV2"], 4);
  EXPECT_EQ(report["checkpoint"]["trainable_elements"],
            784 * 64 + 64 + 64 * 10 + 10);
  EXPECT_EQ(
      report["checkpoint"]["parameters"][0],
      Json({{"name", "fc1.bias"}, {"trains", true}, {"type", "float32[64]"}}));
  EXPECT_TRUE(report["plan"]["train"].is_object());
  EXPECT_TRUE(report["plan"]["eval"].is_object());
}

TEST(Program, InspectsFilesByContent) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder / "checkpoint_after",
                        folder / "strange.onnx");
  ProgramResult result =
      RunProgram({"inspect", (folder / "strange.onnx").string(), "--dump",
                  (folder / "out.npz").string()});
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("is a checkpoint"), std::string::npos);
  EXPECT_NE(result.out.find("fc1.weight  float32[64, 784]  trains"),
            std::string::npos)
      << result.out;
  const auto arrays = data::ReadNpz(folder / "out.npz", *golden.files);
  EXPECT_EQ(Values<float>(arrays.at("fc2.bias")),
            golden.Expected("param/fc2.bias"));
  EXPECT_TRUE(arrays.contains("moment/fc2.bias/momentum1"));

  result = RunProgram({"inspect", golden.Path("inference.onnx"), "--plan"});
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("is a model"), std::string::npos);
  EXPECT_NE(result.out.find("plan: inference"), std::string::npos);
}

TEST(Program, HelpShowsAnExample) {
  for (const char* verb : {"train", "eval", "export", "inspect"}) {
    const ProgramResult result = RunProgram({verb, "--help"});
    ExpectSuccess(result);
    EXPECT_NE(result.out.find("Example:\n  strop " + std::string(verb)),
              std::string::npos)
        << result.out;
  }
  EXPECT_NE(RunProgram({"--version"}).out, "");
  ExpectSuccess(RunProgram({"--help"}));
}

}  // namespace
}  // namespace strop
