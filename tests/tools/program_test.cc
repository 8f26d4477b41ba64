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

TEST(Program, MeasuresStepsAndWritesNothing) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "mlp");
  const std::string mlp = (folder / "mlp").string();
  const auto files = [&] {
    const std::filesystem::directory_iterator all(mlp);
    return std::distance(begin(all), end(all));
  };
  const auto count = files();
  const std::string checkpoint = ReadText(folder / "mlp/checkpoint");
  ProgramResult result =
      RunProgram({"bench", mlp, "--steps", "3", "--threads", "1", "--json"});
  ExpectSuccess(result);
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report["steps"], 3);
  EXPECT_EQ(report["threads"], 1);
  EXPECT_LE(report["step_best_ms"], report["step_median_ms"]);
  EXPECT_GT(report["first_step_ms"], report["step_best_ms"]);
  EXPECT_GT(report["plan_bytes"], 0);
  EXPECT_GT(report["peak_resident_bytes"], report["plan_bytes"]);
  double shares = 0;
  std::map<std::string, double> calls;
  for (const Json& row : report["ops"]) {
    shares += row["share"].get<double>();
    calls[row["op"]] += row["calls"].get<double>();
  }
  EXPECT_NEAR(shares, 1, 1e-6);
  EXPECT_NEAR(calls["Gemm"] + calls["GemmAccumulate"], 5, 1e-6);
  EXPECT_NEAR(calls["(optimizer)"], 1, 1e-6);
  EXPECT_EQ(files(), count);
  EXPECT_EQ(ReadText(folder / "mlp/checkpoint"), checkpoint);

  result = RunProgram({"bench", mlp, "--steps", "1"});
  ExpectSuccess(result);
  EXPECT_NE(result.out.find("step        median"), std::string::npos);
  EXPECT_EQ(RunProgram({"bench", mlp, "--steps", "0"}).exit_code, 2);
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

// The training graph gets an input that looks like a gradient buffer, but
// belongs to no parameter.
TEST(Program, InspectShowsInputsThatOnlyLookLikeGradients) {
  GoldenCase golden("mlp_ce_adamw");
  TemporaryFolder folder;
  std::filesystem::copy(golden.folder, folder / "mlp");
  const auto path = folder / "mlp/training_model.onnx";
  const std::string name = "foo_grad.accumulation.buffer";
  Model model = ReadOnnx(path, *golden.files);
  Graph& graph = model.graph;
  const ValueId input = graph.AddInput(
      name, {.kind = ValueType::Kind::kTensor,
             .element = DataType::kFloat32,
             .dims = std::vector<Dimension>{{.value = 1, .symbol = ""}},
             .encoded = {}});
  Node node;
  node.op_type = "Identity";
  node.inputs = {input};
  node.outputs = {graph.AddValue("foo_out")};
  const ValueId out = node.outputs[0];
  graph.AddNode(std::move(node));
  std::vector<ValueId> outputs(graph.outputs().begin(), graph.outputs().end());
  outputs.push_back(out);
  graph.SetOutputs(std::move(outputs));
  WriteOnnx(model, path, *golden.files);
  for (const auto& [source, part] :
       {std::pair{folder / "mlp", "train_model"}, std::pair{path, "model"}}) {
    const ProgramResult result =
        RunProgram({"inspect", source.string(), "--json"});
    ExpectSuccess(result);
    const Json report = Json::parse(result.out);
    std::vector<std::string> names;
    for (const auto& entry : report[part]["inputs"]) {
      names.push_back(entry["name"]);
    }
    EXPECT_EQ(std::ranges::count(names, name), 1) << source;
    EXPECT_EQ(std::ranges::count(names, "lazy_reset_grad"), 0) << source;
    EXPECT_EQ(
        std::ranges::count_if(
            names, [](const auto& n) { return n.find("_grad") != n.npos; }),
        1)
        << source;
    EXPECT_EQ(report[part]["outputs"].size(), 2u) << source;
  }
}

// Fields of protocol buffers: a number, and bytes.
std::string Field(char number, uint64_t value) {
  std::string text(1, static_cast<char>(number << 3));
  for (; value >= 128; value >>= 7) {
    text += static_cast<char>(value | 128);
  }
  return text + static_cast<char>(value);
}
std::string Field(char number, const std::string& bytes) {
  std::string text = Field(number, bytes.size());
  text[0] = static_cast<char>(text[0] | 2);
  return text + bytes;
}

TEST(Program, InspectCountsElementsWithoutOverflow) {
  TemporaryFolder folder;
  std::string graph = Field(2, std::string("g"));
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    // Of a type that nobody knows: carried along, whatever its size.
    graph += Field(5, Field(1, uint64_t{1} << 61) + Field(2, uint64_t{99}) +
                          Field(8, std::string(name)));
  }
  WriteText(folder / "huge.onnx", Field(1, uint64_t{8}) + Field(7, graph) +
                                      Field(8, Field(2, uint64_t{14})));
  const ProgramResult result =
      RunProgram({"inspect", (folder / "huge.onnx").string(), "--json"});
  ExpectSuccess(result);
  EXPECT_EQ(Json::parse(result.out)["model"]["initializer_elements"],
            INT64_MAX);
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
