// SPDX-License-Identifier: Apache-2.0
//
// Module against the conformance list of ONNX Runtime's training API: a test
// is named after the line that it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/golden.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

Models WithTrain(const std::function<void(Graph&)>& change) {
  Models models = Models::Default();
  Model model = TrainModel();
  change(model.graph);
  models.train = EncodeOnnx(model);
  return models;
}

void AddInput(Graph& graph, const std::string& name) {
  graph.AddInput(name, ValueType::OfTensor(
                           DataType::kFloat32,
                           std::vector<Dimension>{{.value = 2, .symbol = {}}}));
}

void RemoveInput(Graph& graph, const std::string& name) {
  std::vector<ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
  std::erase(inputs, graph.Find(name));
  graph.SetInputs(inputs);
}

// Removes the accumulator, which reads buffer and flag.
void RemoveAccumulator(Graph& graph) {
  graph.RemoveNode(graph.value(graph.Find("w_grad.accumulation.out")).producer);
  graph.SetOutputs({graph.Find("loss")});
}

TEST(Conformance, Line18_InputsAreSortedByName) {
  // A gradient suffix counts after a parameter's name only, and a name that
  // the checkpoint does not have is a user input.
  const Models models = WithTrain([](Graph& graph) {
    AddInput(graph, "x_grad");
    AddInput(graph, "missing");
  });
  Session session(models);
  EXPECT_EQ(session.module.TrainingInputNames(),
            (Names{"x", "x_grad", "missing"}));
}

TEST(Conformance, Line18_ATrainableParameterThatTheGraphLacksIsAnError) {
  const Environment environment;
  CheckpointState state = State(environment);
  AddParameter(state, "surplus", /*requires_grad=*/true, {1});
  const Models models = Models::Default();
  const Thrown thrown =
      ErrorOf([&] { Module(models.identifiers(), &state, {}, environment); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("\"surplus\""), std::string::npos) << thrown.text;
  EXPECT_FALSE(state.Gradient("w").has_value());
}

TEST(Conformance, Line18_AFrozenParameterThatTheGraphLacksIsFine) {
  const Environment environment;
  CheckpointState state = State(environment);
  AddParameter(state, "surplus", /*requires_grad=*/false, {1});
  const Models models = Models::Default();
  Module module(models.identifiers(), &state, {}, environment);
  EXPECT_EQ(module.GetParametersSize(/*trainable_only=*/false), 4);
}

TEST(Conformance, Line19_NamesAndCountsExcludeHiddenOnes) {
  Session session;
  EXPECT_EQ(session.module.TrainingInputNames(), Names{"x"});
  EXPECT_EQ(session.module.TrainingOutputNames(), (Names{"loss", "y"}));
  EXPECT_EQ(session.module.EvalInputNames(), Names{"x"});
  EXPECT_EQ(session.module.EvalOutputNames(), (Names{"loss", "y"}));
  const Module::InputInfo& x = session.module.TrainingInputs().at(0);
  EXPECT_EQ(x.type, DataType::kFloat32);
  EXPECT_TRUE(x.has_shape);
  EXPECT_EQ(x.dims, (std::vector<int64_t>{-1, 2}));
}

TEST(Conformance, Line20_ATrainableParameterNeedsAGradientBuffer) {
  const Models models = WithTrain([](Graph& graph) {
    RemoveAccumulator(graph);
    RemoveInput(graph, "w_grad.accumulation.buffer");
  });
  const Thrown thrown = ErrorOf([&] { Session session(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("w_grad.accumulation.buffer"), std::string::npos)
      << thrown.text;
}

TEST(Conformance, Line20_AFrozenParameterMustNotHaveOne) {
  const Models models = WithTrain(
      [](Graph& graph) { AddInput(graph, "b_grad.accumulation.buffer"); });
  const Thrown thrown = ErrorOf([&] { Session session(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("frozen"), std::string::npos) << thrown.text;
}

TEST(Conformance, Line21_PrepackingMustNotBeAskedFor) {
  const auto make = [](const SessionOptions& options) {
    return ErrorOf([&] { Session session(Models::Default(), options); });
  };
  SessionOptions options;
  EXPECT_FALSE(make(options).code.has_value());
  EXPECT_TRUE(options.config.empty());  // the caller's copy stays
  options.config["session.disable_prepacking"] = "1";
  EXPECT_FALSE(make(options).code.has_value());
  options.config["session.disable_prepacking"] = "0";
  EXPECT_EQ(make(options).code, ErrorCode::kInvalidArgument);
}

TEST(Conformance, Line22_TheFirstTrainStepOverwritesGradients) {
  Session session;
  EXPECT_EQ(session.gradient(), (Floats{0, 0}));
  session.state.Gradient("w")->values<float>()[0] = 100;
  EXPECT_EQ(session.Step(3, 5), 3 * 1 + 5 * -2 + 0.75f);
  EXPECT_EQ(session.gradient(), (Floats{3, 5}));
}

TEST(Conformance, Line23_GradientsAddUp) {
  Session session;
  for (int n = 1; n <= 4; ++n) {
    session.Step(3, 5);
    EXPECT_EQ(session.gradient(), (Floats{3.0f * n, 5.0f * n}));
  }
}

TEST(Conformance, Line23_GradientsOfAGoldenModelAddUp) {
  const golden::Case golden("nominal");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/1);
  const auto batch = golden.Batch(0, run.module().TrainingInputNames());
  run.module().TrainStep(batch, nullptr);
  golden::Named first = run.Gradients();
  run.module().TrainStep(batch, nullptr);
  run.module().TrainStep(batch, nullptr);
  std::map<std::string, Tensor> tripled;
  for (auto& [name, gradient] : first) {
    for (float& x : gradient.values<float>()) x *= 3;
    tripled.emplace(name, gradient.view());
  }
  EXPECT_LE(golden::Difference(tripled, run.Gradients()), 1e-6);
}

TEST(Conformance, Line24_LazyResetOverwritesInTheNextTrainStep) {
  Session session;
  Optimizer optimizer(Models::Default("SGDOptimizerV2").identifiers(),
                      &session.state, {}, session.environment);
  session.Step(3, 5);
  session.module.LazyResetGrad();
  EXPECT_EQ(session.gradient(), (Floats{3, 5}));
  // An optimizer step in between still sees the old gradients.
  optimizer.SetLearningRate(0.5f);
  optimizer.Step();
  EXPECT_EQ(session.w(), (Floats{1 - 1.5f, -2 - 2.5f}));
  session.Step(1, 2);
  EXPECT_EQ(session.gradient(), (Floats{1, 2}));
}

std::map<std::string, Floats> AllGradients(golden::TrainingRun& run) {
  std::map<std::string, Floats> all;
  for (const auto& [name, value] : run.Gradients()) all[name] = Values(value);
  return all;
}

TEST(Conformance, Line25_ATrainStepThatFailsOnItsDataKeepsAPendingReset) {
  const golden::Case golden("mlp_ce_adamw");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/1);
  golden::TrainingRun same(golden, "checkpoint", /*threads=*/1);
  const std::vector<Tensor> good =
      golden.Batch(0, run.module().TrainingInputNames());
  for (golden::TrainingRun* each : {&run, &same}) {
    each->module().TrainStep(good, nullptr);
    each->module().LazyResetGrad();
  }
  const auto before = AllGradients(run);
  OwnedTensor labels(good[1]);
  labels.values<int64_t>()[0] = 1000;
  const Tensor wrong[] = {good[0], labels};
  EXPECT_EQ(ErrorOf([&] { run.module().TrainStep(wrong, nullptr); }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(AllGradients(run), before);
  for (golden::TrainingRun* each : {&run, &same}) {
    each->module().TrainStep(good, nullptr);
  }
  EXPECT_EQ(AllGradients(run), AllGradients(same));
  EXPECT_EQ(AllGradients(run), before);  // of one step, not of two
}

TEST(Conformance, Line25_ATrainStepOfWrongShapeKeepsAPendingReset) {
  Session session;
  session.Step(3, 5);
  session.module.LazyResetGrad();
  const OwnedTensor wrong = FloatTensor({1, 3}, {1, 2, 3});
  EXPECT_EQ(ErrorOf([&] {
              session.module.TrainStep({&wrong.view(), 1}, nullptr);
            }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(session.gradient(), (Floats{3, 5}));
  session.Step(1, 2);
  EXPECT_EQ(session.gradient(), (Floats{1, 2}));
}

TEST(Conformance, Line26_WrongCountsAreNamed) {
  Session session;
  const OwnedTensor x = FloatTensor({1, 2}, {1, 2});
  const Tensor two[] = {x, x};
  Thrown thrown = ErrorOf([&] { session.module.TrainStep(two, nullptr); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("1 inputs are wanted (\"x\"), 2 were given"),
            std::string::npos)
      << thrown.text;
  OwnedTensor loss(DataType::kFloat32, {});
  const std::span<const Tensor> outputs(&loss.view(), 1);
  thrown = ErrorOf([&] { session.module.TrainStep({&x.view(), 1}, outputs); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("2 outputs are wanted"), std::string::npos)
      << thrown.text;
  EXPECT_EQ(session.gradient(), (Floats{0, 0}));
}

TEST(Conformance, Line27_AStepWithoutOutputsAccumulatesToo) {
  Session session;
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  session.module.TrainStep({&x.view(), 1}, std::span<const Tensor>());
  session.module.TrainStep({&x.view(), 1}, nullptr);
  EXPECT_EQ(session.gradient(), (Floats{6, 10}));
}

TEST(Conformance, Line28_GivenOutputsAreWrittenInPlace) {
  Session session;
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  float loss = 0, y[2] = {};
  const Tensor outputs[] = {Tensor(Shape{}, &loss), Tensor(Shape{1, 2}, y)};
  session.module.TrainStep({&x.view(), 1}, outputs);
  EXPECT_EQ(loss, -6.25f);
  EXPECT_EQ(y[0], 3.5f);
  EXPECT_EQ(y[1], -9.75f);

  const Tensor wrong[] = {Tensor(Shape{}, &loss), Tensor(Shape{2}, y)};
  const Thrown thrown = ErrorOf([&] {
    session.module.TrainStep({&x.view(), 1}, wrong);
  });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("\"y\""), std::string::npos) << thrown.text;
  EXPECT_EQ(session.gradient(), (Floats{3, 5}));  // as before
}

TEST(Conformance, Line28_TensorsInTheVectorAreReused) {
  Session session;
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  std::vector<OwnedTensor> outputs;
  session.module.TrainStep({&x.view(), 1}, &outputs);
  const void* memory = outputs[1].view().data();
  session.module.TrainStep({&x.view(), 1}, &outputs);
  EXPECT_EQ(outputs[1].view().data(), memory);
}

TEST(Conformance, Line29_EvalWithoutAnEvalModelIsAnError) {
  Models models = Models::Default();
  models.eval.clear();
  Session session(models);
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  EXPECT_EQ(ErrorOf([&] {
              session.module.EvalStep({&x.view(), 1}, nullptr);
            }).code,
            ErrorCode::kFailedState);
  EXPECT_TRUE(session.module.EvalInputNames().empty());
  EXPECT_TRUE(session.module.EvalOutputNames().empty());
}

TEST(Module, BindsEvalParametersByName) {
  // w and b have equal shapes and other positions in the eval graph.
  Session session;
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  std::vector<OwnedTensor> outputs;
  session.module.EvalStep({&x.view(), 1}, &outputs);
  EXPECT_EQ(Values(outputs.at(0)), Floats{-6.25f});
  EXPECT_EQ(Values(outputs.at(1)), (Floats{3.5f, -9.75f}));
}

TEST(Conformance, Line63_TwoSessionsShareOneState) {
  Session first;
  const Models models = Models::Default();
  {
    Module second(models.identifiers(), &first.state, {}, first.environment);
    const OwnedTensor x = FloatTensor({1, 2}, {1, 2});
    first.Step(3, 5);
    second.TrainStep({&x.view(), 1}, nullptr);
    EXPECT_EQ(first.gradient(), (Floats{1, 2}));
    first.state.UpdateParameter("w", FloatTensor({2}, {0, 0}));
    std::vector<OwnedTensor> outputs;
    second.TrainStep({&x.view(), 1}, &outputs);
    EXPECT_EQ(Values(outputs.at(0)), Floats{0.75f});
  }
  first.module.LazyResetGrad();
  EXPECT_EQ(first.Step(3, 5), 0.75f);
  EXPECT_EQ(first.gradient(), (Floats{3, 5}));
}

TEST(Module, GoesOnWhenTheStateIsMoved) {
  Session session;
  session.Step(3, 5);
  CheckpointState moved = std::move(session.state);
  moved.UpdateParameter("w", FloatTensor({2}, {0, 0}));
  EXPECT_EQ(session.Step(1, 2), 0.75f);
  EXPECT_EQ(Values(*moved.Gradient("w")), (Floats{4, 7}));
}

TEST(Module, NamesInputWantedAndGiven) {
  Session session;
  const auto text = [&](const Tensor& x) {
    return ErrorOf([&] { session.module.TrainStep({&x, 1}, nullptr); }).text;
  };
  EXPECT_EQ(text(OwnedTensor(DataType::kInt32, {1, 2})),
            "TrainStep: input \"x\" is wanted as float32 of shape (batch, 2), "
            "int32 of shape (1, 2) was given");
  EXPECT_EQ(text(OwnedTensor(DataType::kFloat32, {2})),
            "TrainStep: input \"x\" is wanted as float32 of shape (batch, 2), "
            "float32 of shape (2) was given");
  EXPECT_EQ(text(OwnedTensor(DataType::kFloat32, {4, 3})),
            "TrainStep: input \"x\" is wanted as float32 of shape (batch, 2), "
            "float32 of shape (4, 3) was given");
  EXPECT_EQ(text(Tensor(DataType::kFloat32, Shape{1, 2}, nullptr)),
            "TrainStep: input \"x\" has no data");
  EXPECT_EQ(session.gradient(), (Floats{0, 0}));
}

TEST(Module, EqualSymbolsAreEqualSizes) {
  const golden::Case golden("nominal");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/1);
  auto batch = golden.Batch(0, run.module().TrainingInputNames());
  int64_t labels[3] = {};
  batch[1] = Tensor(Shape{3}, labels);
  const Thrown thrown =
      ErrorOf([&] { run.module().TrainStep(batch, nullptr); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("\"labels\" is 3"), std::string::npos)
      << thrown.text;
}

TEST(Module, StateAndGraphMustAgree) {
  for (const char* name : {"w", "w_grad.accumulation.buffer"}) {
    const Models models = WithTrain([&](Graph& graph) {
      ValueType& type = graph.value(graph.Find(name)).type;
      (*type.dims)[0].value = 3;
      type.encoded.clear();
    });
    const Thrown thrown = ErrorOf([&] { Session session(models); });
    EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
    EXPECT_NE(thrown.text.find(name), std::string::npos) << thrown.text;
    EXPECT_NE(thrown.text.find("(3)"), std::string::npos) << thrown.text;
  }
}

TEST(Module, NeedsTheResetFlag) {
  const Models models = WithTrain([](Graph& graph) {
    RemoveAccumulator(graph);
    RemoveInput(graph, "lazy_reset_grad");
  });
  const Thrown thrown = ErrorOf([&] { Session session(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("lazy_reset_grad"), std::string::npos)
      << thrown.text;
}

TEST(Module, NamesAnUnknownOp) {
  const Models models = WithTrain([](Graph& graph) {
    graph.node(graph.value(graph.Find("y")).producer).op_type = "Frobnicate";
  });
  const Thrown thrown = ErrorOf([&] { Session session(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kNotImplemented);
  EXPECT_NE(thrown.text.find("Frobnicate"), std::string::npos) << thrown.text;
}

TEST(Module, RefusesACycle) {
  const Models models = WithTrain([](Graph& graph) {
    Node& scale = graph.node(graph.value(graph.Find("scaled")).producer);
    scale.inputs[0] = graph.Find("y");
  });
  const Thrown thrown = ErrorOf([&] { Session session(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("scaled"), std::string::npos) << thrown.text;
}

TEST(Module, RefusesMissingAndTruncatedFiles) {
  const Environment environment;
  CheckpointState state = State(environment);
  const std::filesystem::path folder = testing::TempDir();
  EXPECT_EQ(ErrorOf([&] {
              Module({.train = folder / "no_such_model.onnx"}, &state, {},
                     environment);
            }).code,
            ErrorCode::kNoSuchFile);
  EXPECT_EQ(
      ErrorOf([&] { Module({.train = folder}, &state, {}, environment); }).code,
      ErrorCode::kIo);
  const Models models = Models::Default();
  for (size_t length = 0; length < models.train.size(); ++length) {
    Models cut = models;
    cut.train.resize(length);
    // Some lengths are whole messages; none may do more than throw.
    try {
      Module module(cut.identifiers(), &state, {}, environment);
    } catch (const Error&) {
      EXPECT_FALSE(state.Gradient("w").has_value()) << length;
    }
  }
}

TEST(Module, DamagedModelsThrowOrTrain) {
  const Environment environment({.num_threads = 1,
                                 .log = [](LogLevel, std::string_view) {},
                                 .files = {}});
  const Models models = Models::Default();
  const OwnedTensor x = FloatTensor({1, 2}, {3, 5});
  int trained = 0, refused = 0;
  for (size_t position = 0; position < models.train.size(); ++position) {
    for (int flip : {0x01, 0x10, 0xff}) {
      Models damaged = models;
      char& byte = damaged.train[position];
      byte = static_cast<char>(byte ^ flip);
      CheckpointState state = State(environment);
      try {
        Module module(damaged.identifiers(), &state, {}, environment);
        module.TrainStep({&x.view(), 1}, nullptr);
        ++trained;
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(trained, 0);
  EXPECT_GT(refused, 0);
}

TEST(Module, TakesBatchesOfChangingSizes) {
  Session session;
  for (int64_t batch : {32, 5, 32, 1}) {
    session.module.LazyResetGrad();
    OwnedTensor x(DataType::kFloat32, {batch, 2});
    std::ranges::fill(x.values<float>(), 1.0f);
    std::vector<OwnedTensor> outputs;
    session.module.TrainStep({&x.view(), 1}, &outputs);
    const auto n = static_cast<float>(batch);
    EXPECT_EQ(outputs[0].values<float>()[0], n * (1 - 2 + 0.75f));
    EXPECT_EQ(outputs[1].shape(), (Shape{batch, 2}));
    EXPECT_EQ(session.gradient(), (Floats{n, n}));
    session.module.EvalStep({&x.view(), 1}, &outputs);
    EXPECT_EQ(outputs[0].values<float>()[0], n * (1 - 2 + 0.75f));
  }
}

TEST(Module, LabelsOutOfRangeChangeNothing) {
  const golden::Case golden("nominal");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/2);
  run.Train(0, 1);
  const golden::Named gradients = run.Gradients();
  const auto batch = golden.Batch(1, run.module().TrainingInputNames());
  for (int64_t label : {int64_t{3}, int64_t{-1}, int64_t{1} << 60}) {
    OwnedTensor labels(batch[1]);
    labels.values<int64_t>()[2] = label;
    const Tensor wrong[] = {batch[0], labels};
    const Thrown thrown =
        ErrorOf([&] { run.module().TrainStep(wrong, nullptr); });
    ASSERT_EQ(thrown.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(thrown.text.find(std::to_string(label)), std::string::npos)
        << thrown.text;
  }
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : gradients) before.emplace(name, tensor);
  EXPECT_EQ(golden::Difference(before, run.Gradients()), 0);
  // The session goes on as if nothing had been tried, reset included.
  run.Train(1, 2);
  golden::TrainingRun untouched(golden, "checkpoint", /*threads=*/2);
  untouched.Train(0, 2);
  EXPECT_EQ(run.losses(), untouched.losses());
}

std::map<std::string, std::vector<float>> AllValues(
    const golden::TrainingRun& run) {
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, value] : run.Parameters()) {
    values.emplace(name, Values(value));
  }
  return values;
}

bool IsStatistic(const std::string& name) {
  return name.find(".running_") != std::string::npos;
}

TEST(Module, AFailedStepLeavesRunningStatistics) {
  const golden::Case golden("resnet8_bn");
  golden::TrainingRun run(golden, "checkpoint", /*threads=*/1);
  const auto before = AllValues(run);
  const auto batch = golden.Batch(0, run.module().TrainingInputNames());
  OwnedTensor labels(batch[1]);
  labels.values<int64_t>()[0] = 1000;
  const Tensor wrong[] = {batch[0], labels};
  EXPECT_EQ(ErrorOf([&] { run.module().TrainStep(wrong, nullptr); }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(AllValues(run), before);
  run.module().TrainStep(batch, nullptr);
  for (const auto& [name, values] : AllValues(run)) {
    EXPECT_EQ(values != before.at(name), IsStatistic(name)) << name;
  }
}

TEST(Module, KeepsRunningStatisticsWhenAsked) {
  const golden::Case golden("resnet8_bn");
  golden::TrainingRun updating(golden, "checkpoint", /*threads=*/1);
  SessionOptions options;
  options.update_batch_norm_statistics = false;
  golden::TrainingRun keeping(golden, "checkpoint", /*threads=*/1, options);
  const auto before = AllValues(keeping);
  updating.Train(0, 3);
  keeping.Train(0, 3);
  // They are not read in training, so all else is the same.
  EXPECT_EQ(keeping.losses(), updating.losses());
  const auto trained = AllValues(updating);
  for (const auto& [name, values] : AllValues(keeping)) {
    EXPECT_EQ(values, IsStatistic(name) ? before.at(name) : trained.at(name))
        << name;
  }
}

TEST(Module, ReportsOrRefusesALossThatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Session reporting;
  EXPECT_TRUE(std::isnan(reporting.Step(nan, 1)));
  EXPECT_TRUE(std::isnan(reporting.gradient()[0]));

  SessionOptions options;
  options.non_finite = SessionOptions::NonFinite::kError;
  Session strict(Models::Default(), options);
  strict.Step(3, 5);
  strict.module.LazyResetGrad();
  for (float x : {nan, std::numeric_limits<float>::infinity()}) {
    const Thrown thrown = ErrorOf([&] { strict.Step(x, 1); });
    EXPECT_EQ(thrown.code, ErrorCode::kNonFinite);
    EXPECT_NE(thrown.text.find("\"loss\""), std::string::npos) << thrown.text;
    EXPECT_EQ(strict.gradient(), (Floats{3, 5}));
  }
  strict.Step(1, 2);
  EXPECT_EQ(strict.gradient(), (Floats{1, 2}));
}

TEST(Module, HoldsToItsMemoryLimit) {
  SessionOptions options;
  options.memory_limit_bytes = 64;
  Session session(Models::Default(), options);
  OwnedTensor x(DataType::kFloat32, {1000, 2});
  EXPECT_EQ(ErrorOf([&] {
              session.module.TrainStep({&x.view(), 1}, nullptr);
            }).code,
            ErrorCode::kOutOfMemory);
  EXPECT_EQ(session.gradient(), (Floats{0, 0}));
}

TEST(Module, DescribesThePlanOfTheLastStepOrOfInputs) {
  Session session;
  EXPECT_EQ(ErrorOf([&] {
              session.module.DescribePlan(true, {}, Module::PlanFormat::kText);
            }).code,
            ErrorCode::kFailedState);
  const Tensor x(DataType::kFloat32, Shape{7, 2}, nullptr);
  const std::string plan =
      session.module.DescribePlan(true, {&x, 1}, Module::PlanFormat::kText);
  EXPECT_NE(plan.find("ReduceSum"), std::string::npos) << plan;
  session.Step(3, 5);
  const std::string json =
      session.module.DescribePlan(true, {}, Module::PlanFormat::kJson);
  EXPECT_EQ(json.front(), '{');
}

TEST(Module, WritesAProfileWhenAsked) {
  const auto path = std::filesystem::path(testing::TempDir()) / "trace.json";
  Session silent;
  EXPECT_EQ(ErrorOf([&] { silent.module.WriteProfile(path); }).code,
            ErrorCode::kFailedState);
  SessionOptions options;
  options.enable_profiling = true;
  Session session(Models::Default(), options);
  session.Step(3, 5);
  session.module.WriteProfile(path);
  EXPECT_GT(std::filesystem::file_size(path), 2u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace strop::tiny
