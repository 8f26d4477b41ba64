// SPDX-License-Identifier: Apache-2.0
//
// Bare models on the command line: check, prepare, and training from them.
#include <map>

#include "graph/onnx_io.h"
#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "tools/golden.h"
#include "tools/program.h"

namespace strop {
namespace {

using std::filesystem::path;

path ModelOf(const GoldenCase& golden) { return golden.folder / "model.onnx"; }

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Check, TellsThatAModelTrains) {
  const GoldenCase golden("lenet_ce_sgd");
  const ProgramResult result = RunProgram({"check", ModelOf(golden).string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "fc1.weight float32 (")) << result.out;
  EXPECT_TRUE(Contains(result.out, "this model can be trained"));
}

TEST(Check, TellsWhatStaysAsItIs) {
  const GoldenCase golden("resnet8_bn");
  const ProgramResult result = RunProgram({"check", ModelOf(golden).string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "  (running statistics)")) << result.out;
}

TEST(Check, AFileThatIsNoModelIsAnError) {
  const GoldenCase golden("lenet_ce_sgd");
  const ProgramResult result =
      RunProgram({"check", (golden.folder / "inputs.npz").string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.err.starts_with("strop: error: ")) << result.err;
}

TEST(Prepare, WritesTheFourFiles) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const ProgramResult result = RunProgram(
      {"prepare", ModelOf(golden).string(), "--loss", "cross_entropy",
       "--train", "fc*", "--freeze", "conv*", "--optimizer", "sgd", "--clip",
       "1", "-o", (folder / "made").string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "loss: onnx::loss::2")) << result.out;
  EXPECT_TRUE(Contains(result.out, "outputs: onnx::loss::2, logits"));
  EXPECT_TRUE(Contains(result.out, "trains 4 parameters")) << result.out;
  for (const char* name : {"training_model.onnx", "eval_model.onnx",
                           "optimizer_model.onnx", "checkpoint"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / "made" / name)) << name;
  }
}

TEST(Prepare, AnErrorWritesNothing) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const std::string made = (folder / "made").string();
  const std::string model = ModelOf(golden).string();
  EXPECT_EQ(
      RunProgram({"prepare", model, "--loss", "hinge", "-o", made}).exit_code,
      2);
  EXPECT_EQ(RunProgram({"prepare", model, "--loss", "mse:nothing", "-o", made})
                .exit_code,
            1);
  EXPECT_EQ(RunProgram({"prepare", model, "--loss", "mse", "--train", "fc9*",
                        "-o", made})
                .exit_code,
            1);
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST(Prepare, AnUnknownNameToFreezeIsAnError) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const ProgramResult result =
      RunProgram({"prepare", ModelOf(golden).string(), "--loss", "mse",
                  "--freeze", "fc1.wieght", "-o", (folder / "made").string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(Contains(result.err, "\"fc1.weight\"")) << result.err;
}

// The gradient of an input: there is nothing to optimize.
TEST(Prepare, TellsWhatItWrote) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const std::string made = (folder / "made").string();
  const Arguments prepare = {"prepare", ModelOf(golden).string(),
                             "--loss",  "cross_entropy",
                             "-o",      made};
  ProgramResult result = RunProgram(prepare + Arguments{"--nominal"});
  EXPECT_TRUE(Contains(result.out,
                       "optimizer_model.onnx, checkpoint, "
                       "nominal_checkpoint\n"))
      << result.out << result.err;
  result = RunProgram(prepare + Arguments{"--train", "input"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out,
                       ": training_model.onnx, eval_model.onnx, checkpoint\n"))
      << result.out;
  EXPECT_TRUE(Contains(result.out, "gradients of inputs: input\n"));
  for (const char* stale : {"optimizer_model.onnx", "nominal_checkpoint"})
    EXPECT_TRUE(Contains(result.out, std::string(stale) + " was there before"));
}

TEST(TrainBareModel, AnInputIsNoParameter) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const std::string made = (folder / "made").string();
  const Arguments options = {"--loss", "cross_entropy", "--train",
                             "input,fc1.weight"};
  EXPECT_EQ(
      RunProgram(Arguments{"prepare", ModelOf(golden).string(), "-o", made} +
                 options)
          .exit_code,
      0);
  const Arguments inputs =
      golden.TrainInputs(folder, 2) +
      Arguments{"--steps", "1", "--output", (folder / "out").string()};
  for (const Arguments& arguments :
       {Arguments{"train", made} + inputs,
        Arguments{"train", ModelOf(golden).string()} + options + inputs}) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(Contains(result.err, "no step of strop train")) << result.err;
    EXPECT_TRUE(Contains(result.err, "input")) << result.err;
  }
}

void RenameParameter(Graph& graph, const std::string& name,
                     const std::string& to) {
  const ValueId id = graph.Find(name);
  graph.value(id).initializer->name = to;
  graph.value(id).initializer->encoded = {};
  graph.Rename(id, to);
}

// A backslash tells parts of names from what separates names.
TEST(Prepare, NamesMayHoldColonsCommasAndStars) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  Model model = ReadOnnx(ModelOf(golden), *golden.files);
  RenameParameter(model.graph, "fc1.weight", "fc1,weight");
  const ValueId logits = model.graph.outputs()[0];
  for (const auto& [output, spelled] :
       std::map<std::string, std::string>{{"Identity:0", "Identity\\:0"},
                                          {"a*b", "a*b"},
                                          {"onnx::y\\", "onnx::y\\\\"}}) {
    model.graph.Rename(logits, output);
    WriteText(folder / "model.onnx", EncodeOnnx(model));
    const ProgramResult result =
        RunProgram({"prepare", (folder / "model.onnx").string(), "--loss",
                    "2*cross_entropy:" + spelled + ":t\\:0", "--train",
                    "fc1\\,weight,fc1.bias", "-o", (folder / "made").string()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(Contains(result.out, ", t:0\n")) << result.out;
    EXPECT_TRUE(Contains(result.out, "trains 2 parameters")) << result.out;
  }
}

TEST(Prepare, WeightDecayMayBeItsDefault) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const auto prepare = [&](const char* decay) {
    return RunProgram({"prepare", ModelOf(golden).string(), "--loss", "mse",
                       "--weight-decay", decay, "-o",
                       (folder / "made").string()})
        .exit_code;
  };
  EXPECT_EQ(prepare("0"), 0);
  EXPECT_EQ(prepare("-1"), 2);
}

// The mean of the logits as a float16.
TEST(TrainBareModel, ALossOf16BitsIsRead) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  Model loss;
  loss.ir_version = 8;
  loss.graph.name = "loss";
  Model base = ReadOnnx(ModelOf(golden), *golden.files);
  loss.opset_imports = base.opset_imports;
  loss.graph.opset_imports = base.graph.opset_imports;
  Graph& graph = loss.graph;
  Node mean, cast;
  mean.op_type = "ReduceMean";
  mean.SetAttribute("keepdims", int64_t{0});
  mean.inputs = {graph.AddInput(
      "logits", ValueType::OfTensor(DataType::kFloat32, std::nullopt))};
  mean.outputs = {graph.AddValue("mean")};
  cast.op_type = "Cast";
  cast.SetAttribute("to", static_cast<int64_t>(DataType::kFloat16));
  cast.inputs = mean.outputs;
  cast.outputs = {graph.AddValue(
      "half", ValueType::OfTensor(DataType::kFloat16, std::nullopt))};
  graph.MarkOutput(cast.outputs[0]);
  graph.AddNode(std::move(mean));
  graph.AddNode(std::move(cast));
  WriteText(folder / "loss.onnx", EncodeOnnx(loss));
  Arguments inputs = golden.TrainInputs(folder, 1);
  inputs.resize(2);  // without the labels
  const ProgramResult result = RunProgram(
      Arguments{"train", ModelOf(golden).string(), "--loss-model",
                (folder / "loss.onnx").string(), "--steps", "2", "--batch-size",
                "4", "--output", (folder / "out").string()} +
      inputs);
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
}

// From the bare model as from artifacts: ONNX Runtime's losses.
TEST(TrainBareModel, LossesAreOrts) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  const int64_t steps = golden.recipe["train_steps"];
  const auto& shape = golden.inputs.at(golden.recipe["user_inputs"][0]).shape();
  const Arguments arguments = Arguments{"train",       ModelOf(golden).string(),
                                        "--loss",      "cross_entropy",
                                        "--optimizer", "sgd"} +
                              golden.TrainInputs(folder, steps) +
                              Arguments{"--no-shuffle",
                                        "--batch-size",
                                        std::to_string(shape[1]),
                                        "--steps",
                                        std::to_string(steps),
                                        "--lr",
                                        golden.recipe["lr"].dump(),
                                        "--output",
                                        (folder / "out").string(),
                                        "--metrics",
                                        (folder / "m.jsonl").string()};
  const ProgramResult result = RunProgram(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<float> expected = golden.Expected("train_loss");
  std::vector<float> losses;
  for (const auto& line : ReadLines(folder / "m.jsonl"))
    if (line["event"] == "batch") losses.push_back(line["loss"]);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 5e-6 * expected[0]) << i;
  EXPECT_TRUE(std::filesystem::exists(folder / "out" / "checkpoint"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out" / "model.onnx"));
}

// Writes the case's model with its tensors in a file of that name, which is
// as long as "abcde.data".
void WriteWithData(const GoldenCase& golden, const TemporaryFolder& folder,
                   const std::string& data_name) {
  const EncodedOnnx encoded =
      EncodeOnnx(ReadOnnx(ModelOf(golden), *golden.files), "abcde",
                 {.external_threshold = 0, .force_external = true});
  std::string model = encoded.bytes, data;
  for (size_t at; (at = model.find("abcde.data")) != std::string::npos;)
    model.replace(at, data_name.size(), data_name);
  for (const auto& part : encoded.data)
    data.append(reinterpret_cast<const char*>(part.data()), part.size());
  WriteText(folder / "model.onnx", model);
  WriteText(folder / data_name, data);
}

TEST(TrainBareModel, ItsDataAreNeverOverwritten) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  WriteWithData(golden, folder, "checkpoint");
  const std::string before = ReadText(folder / "checkpoint");
  std::filesystem::create_directory(folder / "out");
  std::filesystem::create_symlink(folder / "checkpoint",
                                  folder / "out" / "checkpoint");
  const std::string model = (folder / "model.onnx").string();
  for (const Arguments& arguments :
       {Arguments{"prepare", model, "--loss", "cross_entropy", "-o",
                  folder.path().string()},
        Arguments{"train", model, "--loss", "cross_entropy"} +
            golden.TrainInputs(folder, 2) +
            Arguments{"--steps", "1", "--output", (folder / "out").string()}}) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_TRUE(Contains(result.err, "checkpoint would ")) << result.err;
  }
  EXPECT_EQ(ReadText(folder / "checkpoint"), before);
  EXPECT_FALSE(std::filesystem::exists(folder / "training_model.onnx"));
}

TEST(TrainBareModel, TheModelIsNeverOverwritten) {
  const GoldenCase golden("lenet_ce_sgd");
  TemporaryFolder folder;
  std::filesystem::copy(ModelOf(golden), folder / "model.onnx");
  const ProgramResult result =
      RunProgram(Arguments{"train", (folder / "model.onnx").string(), "--loss",
                           "cross_entropy"} +
                 golden.TrainInputs(folder, 2) +
                 Arguments{"--steps", "1", "--output", (folder / "").string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(std::filesystem::file_size(folder / "model.onnx"),
            std::filesystem::file_size(ModelOf(golden)));
}

}  // namespace
}  // namespace strop
