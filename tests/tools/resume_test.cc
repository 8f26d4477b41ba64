// SPDX-License-Identifier: Apache-2.0
//
// A run that was broken off goes on with the same bits.
#include <sys/stat.h>

#include <fstream>

#include "checkpoint/parameter_store.h"
#include "graph/onnx_io.h"
#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "tools/golden.h"
#include "tools/program.h"

namespace strop {
namespace {

using Json = nlohmann::json;

// Bit-equal parameters, moments, step and rate.
void ExpectSameState(const std::filesystem::path& a,
                     const std::filesystem::path& b) {
  const Environment environment;
  const CheckpointState x = CheckpointState::Load(a, environment);
  const CheckpointState y = CheckpointState::Load(b, environment);
  auto equal = [](const Tensor& s, const Tensor& t) {
    return s.shape() == t.shape() && s.type() == t.type() &&
           std::ranges::equal(s.bytes(), t.bytes());
  };
  ASSERT_EQ(x.ParameterNames(), y.ParameterNames());
  for (const std::string& name : x.ParameterNames()) {
    EXPECT_TRUE(equal(x.ParameterValue(name), y.ParameterValue(name))) << name;
  }
  const OptimizerGroup& g = x.store().groups.at("group0");
  const OptimizerGroup& h = y.store().groups.at("group0");
  EXPECT_EQ(g.step, h.step);
  EXPECT_EQ(g.learning_rate, h.learning_rate);
  for (const auto& [parameter, moments] : g.parameters) {
    for (const auto& [moment, value] : moments) {
      EXPECT_TRUE(equal(value, h.parameters.at(parameter).at(moment)))
          << parameter << " " << moment;
    }
  }
}

class Resume : public testing::Test {
 protected:
  // 960 samples, shuffled; the last batch and the last accumulation of an
  // epoch are short.
  Arguments Train(const std::string& output, const Arguments& more) {
    return Arguments{"train", golden_.folder.string()} +
           golden_.TrainInputs(folder_) +
           Arguments{"--output", (folder_ / output).string()} + more;
  }
  Arguments Metrics(const std::string& name) {
    return {"--metrics", (folder_ / name).string()};
  }

  GoldenCase golden_{"mlp_ce_adamw"};
  TemporaryFolder folder_;
};

TEST_F(Resume, TwoAndTwoEpochsAreFour) {
  const Arguments run = {"--threads",    "2",    "--batch-size", "50",
                         "--accumulate", "3",    "--seed",       "1234",
                         "--lr",         "0.002"};
  ExpectSuccess(RunProgram(
      Train("four", run + Arguments{"--epochs", "4"} + Metrics("four.jsonl"))));
  ExpectSuccess(RunProgram(
      Train("two", run + Arguments{"--epochs", "2"} + Metrics("two.jsonl"))));
  ExpectSuccess(RunProgram(
      Train("two", Arguments{"--resume", "--epochs", "4", "--threads", "2"} +
                       Metrics("two.jsonl"))));
  ExpectSameState(folder_ / "four/checkpoint", folder_ / "two/checkpoint");
  const auto losses = Column(ReadLines(folder_ / "four.jsonl"), "loss");
  EXPECT_EQ(losses.size(), 4u * 20);
  EXPECT_EQ(losses, Column(ReadLines(folder_ / "two.jsonl"), "loss"));
  EXPECT_EQ(ReadText(folder_ / "four/model.onnx"),
            ReadText(folder_ / "two/model.onnx"));
}

TEST_F(Resume, InTheMiddleOfAnEpoch) {
  const Arguments run = {"--threads",    "2", "--batch-size", "50",
                         "--accumulate", "3"};
  ExpectSuccess(RunProgram(Train(
      "whole", run + Arguments{"--steps", "12"} + Metrics("whole.jsonl"))));
  ExpectSuccess(RunProgram(Train("part", run + Arguments{"--steps", "5"})));
  ExpectSuccess(RunProgram(
      Train("part", Arguments{"--resume", "--steps", "12", "--threads", "2"} +
                        Metrics("part.jsonl"))));
  ExpectSameState(folder_ / "whole/checkpoint", folder_ / "part/checkpoint");
  // An epoch's loss is the mean over all of it, however often it was broken.
  auto epoch_loss = [&](const char* file) {
    for (const Json& line : ReadLines(folder_ / file)) {
      if (line["event"] == "epoch") return line["loss"].get<double>();
    }
    return -1.0;
  };
  EXPECT_GT(epoch_loss("whole.jsonl"), 0);
  EXPECT_EQ(epoch_loss("whole.jsonl"), epoch_loss("part.jsonl"));
}

TEST_F(Resume, CtrlCSavesAndEndsCleanly) {
  // 720 steps. The metrics go through a pipe that holds a few hundred lines:
  // the run cannot end before the signal comes.
  const Arguments run = {"--threads",    "1",      "--batch-size", "8",
                         "--accumulate", "2",      "--epochs",     "12",
                         "--schedule",   "linear", "--warmup",     "100",
                         "--lr",         "0.002"};
  const auto pipe = folder_ / "metrics.pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  {
    TemporaryFolder output;
    Program program(Train("broken", run + Metrics("metrics.pipe")),
                    output.path());
    std::ifstream lines(pipe);
    std::string line, last;
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(std::getline(lines, line));
    program.Signal(SIGINT);
    while (std::getline(lines, line)) last = line;
    const ProgramResult result = program.Wait();
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out.find("--resume goes on"), std::string::npos)
        << result.out;
    EXPECT_EQ(Json::parse(last)["event"], "interrupted") << last;
  }
  ExpectSuccess(RunProgram(Train("broken", {"--resume", "--threads", "1"})));
  ExpectSuccess(RunProgram(Train("whole", run)));
  ExpectSameState(folder_ / "whole/checkpoint", folder_ / "broken/checkpoint");
}

// The training model of the folder with a Dropout behind its Relu.
void InsertDropout(const std::filesystem::path& path, FileSystem& files) {
  Model model = ReadOnnx(path, files);
  Graph& graph = model.graph;
  const ValueId from = graph.Find("Relu_1_out");
  const ValueId to = graph.AddValue("dropped");
  graph.ReplaceUses(from, to);
  float ratio = 0.5f;
  bool training = true;
  Node node;
  node.op_type = "Dropout";
  node.inputs = {
      from, graph.AddInitializer(TensorData::Copy("ratio", Tensor({}, &ratio))),
      graph.AddInitializer(TensorData::Copy("mode", Tensor({}, &training)))};
  node.outputs = {to};
  graph.AddNode(std::move(node));
  graph.SortNodes();
  WriteOnnx(model, path, files);
}

TEST_F(Resume, DropoutGoesOnWithTheSameMasks) {
  std::filesystem::copy(golden_.folder, folder_ / "mlp");
  InsertDropout(folder_ / "mlp/training_model.onnx", *golden_.files);
  auto losses = [&](const std::string& output, const Arguments& more) {
    Arguments arguments = Train(output, more + Metrics(output + ".jsonl"));
    arguments[1] = (folder_ / "mlp").string();
    ExpectSuccess(RunProgram(arguments));
    return Column(ReadLines(folder_ / (output + ".jsonl")), "loss");
  };
  const auto whole = losses("whole", {"--epochs", "3", "--seed", "1"});
  losses("part", {"--epochs", "1", "--seed", "1"});
  EXPECT_EQ(losses("part", {"--epochs", "3", "--resume"}), whole);
  ExpectSameState(folder_ / "whole/checkpoint", folder_ / "part/checkpoint");
  // Masks are drawn: the same order of samples gives other losses with
  // another seed.
  const auto seed1 = losses("one", {"--no-shuffle", "--seed", "1"});
  EXPECT_NE(losses("two", {"--no-shuffle", "--seed", "2"}), seed1);
}

// Not on as many threads as the machine has cores, which is the default.
TEST_F(Resume, ConvolutionsGoOnWithoutRepeatingTheThreads) {
  GoldenCase lenet("lenet_ce_sgd");
  const Arguments train =
      Arguments{"train", lenet.folder.string()} + lenet.TrainInputs(folder_);
  auto run = [&](const char* output, const Arguments& more) {
    ExpectSuccess(RunProgram(
        train + Arguments{"--output", (folder_ / output).string()} + more));
  };
  for (const char* threads : {"1", "3"}) {
    const Arguments first = {"--threads",    threads, "--lr",   "0.05",
                             "--batch-size", "32",    "--seed", "5"};
    run("whole", first + Arguments{"--steps", "9"});
    run("part", first + Arguments{"--steps", "4"});
    run("part", {"--resume", "--steps", "9"});
    ExpectSameState(folder_ / "whole/checkpoint", folder_ / "part/checkpoint");
  }
}

TEST_F(Resume, ThreadsMayChangeAndStayChanged) {
  ExpectSuccess(RunProgram(Train("out", {"--threads", "3", "--steps", "2"})));
  const Environment environment;
  auto threads = [&] {
    return std::get<int64_t>(
        CheckpointState::Load(folder_ / "out/checkpoint", environment)
            .GetProperty("strop.train.threads"));
  };
  EXPECT_EQ(threads(), 3);
  ExpectSuccess(
      RunProgram(Train("out", {"--resume", "--steps", "3", "--threads", "1"})));
  EXPECT_EQ(threads(), 1);
  ExpectSuccess(RunProgram(Train("out", {"--resume", "--steps", "4"})));
  EXPECT_EQ(threads(), 1);
}

TEST_F(Resume, KeepsTheScales) {
  const Arguments scale = {"--scale", "input=1/4"};
  ExpectSuccess(RunProgram(Train("whole", scale + Arguments{"--epochs", "2"})));
  ExpectSuccess(RunProgram(Train("part", scale)));
  ProgramResult result =
      RunProgram(Train("part", {"--resume", "--scale", "input=1/2"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("has input=1/4"), std::string::npos) << result.err;
  ExpectSuccess(RunProgram(Train("part", {"--resume", "--epochs", "2"})));
  ExpectSameState(folder_ / "whole/checkpoint", folder_ / "part/checkpoint");
  ExpectSuccess(RunProgram(Train("part", scale + Arguments{"--resume"})));
}

// More batches than an epoch has are accumulated; the number stays as given.
TEST_F(Resume, TakesItsOwnCommandAgain) {
  const Arguments run = {"--accumulate", "1000"};
  ExpectSuccess(RunProgram(Train("out", run)));
  ExpectSuccess(
      RunProgram(Train("out", run + Arguments{"--resume", "--epochs", "2"})));
}

// Broken off in the middle of the warm-up of a run that starts behind others.
TEST_F(Resume, GoesOnWithAWarmUpBehindEarlierRuns) {
  const Arguments run = {"--checkpoint", golden_.Path("checkpoint_after"),
                         "--schedule",   "linear",
                         "--warmup",     "1000",
                         "--lr",         "0.002",
                         "--steps",      "1200",
                         "--batch-size", "8"};
  ExpectSuccess(RunProgram(Train("whole", run)));
  // Held back by its reader, as above.
  const auto pipe = folder_ / "metrics.pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  {
    TemporaryFolder output;
    Program program(Train("part", run + Metrics("metrics.pipe")),
                    output.path());
    std::ifstream lines(pipe);
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    program.Signal(SIGINT);
    while (std::getline(lines, line)) continue;
    EXPECT_EQ(program.Wait().exit_code, 130);
  }
  ExpectSuccess(RunProgram(Train("part", {"--resume"})));
  ExpectSameState(folder_ / "whole/checkpoint", folder_ / "part/checkpoint");
}

// Validation comes after the last checkpoint and may fail.
TEST_F(Resume, WritesTheModelThatIsMissing) {
  ExpectSuccess(RunProgram(Train("whole", {})));
  std::vector<int64_t> labels(32, 10);
  data::WriteNpy(folder_ / "ten.npy", Tensor(Shape{32}, labels.data()),
                 *golden_.files);
  const Arguments eval = golden_.EvalInputs(folder_);
  const ProgramResult result =
      RunProgram(Train("out", {"--validation", eval[1], "--validation",
                               "labels=" + (folder_ / "ten.npy").string()}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("--validation after epoch 1"), std::string::npos)
      << result.err;
  const auto model = folder_ / "out/model.onnx";
  EXPECT_FALSE(std::filesystem::exists(model));
  const ProgramResult resumed = RunProgram(Train("out", {"--resume"}));
  ExpectSuccess(resumed);
  EXPECT_NE(resumed.out.find("nothing was left to train: step 30 of 30"),
            std::string::npos)
      << resumed.out;
  ASSERT_TRUE(std::filesystem::exists(model));
  EXPECT_EQ(ReadText(model), ReadText(folder_ / "whole/model.onnx"));
}

TEST_F(Resume, AGoalThatIsBehindIsNotGoneOnTo) {
  ExpectSuccess(RunProgram(Train("out", {"--steps", "5"})));
  const ProgramResult result =
      RunProgram(Train("out", {"--resume", "--steps", "3"}));
  ExpectSuccess(result);
  EXPECT_EQ(result.out.find("going on"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("nothing was left to train: step 5 of 3"),
            std::string::npos)
      << result.out;
}

// A run that is killed has written more lines than its checkpoint knows of.
TEST_F(Resume, MetricsHoldEachBatchOnceAfterACrash) {
  const Arguments first = {"--batch-size", "50", "--accumulate", "3"};
  const auto checkpoint = folder_ / "out/checkpoint";
  const auto metrics = folder_ / "m.jsonl";
  ExpectSuccess(RunProgram(Train("out", first + Metrics("m.jsonl"))));
  const std::string kept = ReadText(checkpoint);
  const Arguments more =
      Arguments{"--resume", "--epochs", "2"} + Metrics("m.jsonl");
  ExpectSuccess(RunProgram(Train("out", more)));
  const std::vector<float> losses = Column(ReadLines(metrics), "loss");
  ASSERT_EQ(losses.size(), 40u);
  // As after a crash in the middle of a line.
  WriteText(checkpoint, kept);
  const std::string all = ReadText(metrics);
  WriteText(metrics, all.substr(0, all.size() * 4 / 5));
  ExpectSuccess(RunProgram(Train("out", more)));
  EXPECT_EQ(Column(ReadLines(metrics), "loss"), losses);
  // The checkpoint is newer than the last lines: only the broken one goes.
  const std::string line = all.substr(0, all.find('\n') + 1);
  WriteText(metrics, line + line.substr(0, 20));
  ExpectSuccess(
      RunProgram(Train("out", Arguments{"--resume"} + Metrics("m.jsonl"))));
  const std::vector<Json> lines = ReadLines(metrics);
  EXPECT_EQ(lines.front(), Json::parse(line));
  EXPECT_EQ(lines.at(1)["event"], "resume");
}

TEST_F(Resume, KeepsTheRunAsItWasStarted) {
  ExpectSuccess(RunProgram(Train("out", {"--batch-size", "100"})));
  const std::string before = ReadText(folder_ / "out/checkpoint");
  ProgramResult result = RunProgram(
      Train("out", {"--resume", "--epochs", "2", "--batch-size", "50"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("the run that is resumed has 100"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(ReadText(folder_ / "out/checkpoint"), before);
  result = RunProgram(Train("gone", {"--resume"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("nothing was trained there yet"),
            std::string::npos);
  // A goal that is reached leaves nothing to do.
  ExpectSuccess(RunProgram(Train("out", {"--resume"})));
  ExpectSameState(folder_ / "out/checkpoint", folder_ / "out/checkpoint");
}

}  // namespace
}  // namespace strop
