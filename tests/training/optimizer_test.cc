// SPDX-License-Identifier: Apache-2.0
//
// Optimizer, scheduler and TrainingSession against the conformance list of
// ONNX Runtime's training API: a test is named after the line that it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/golden.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

using Floats = std::vector<float>;

Models WithOptimizer(const std::function<void(Graph&)>& change,
                     const std::string& op_type = "AdamWOptimizer") {
  Models models = Models::Default();
  Model model = OptimizerModel(op_type);
  change(model.graph);
  models.optimizer = EncodeOnnx(model);
  return models;
}

Node& OptimizerNode(Graph& graph) {
  return graph.node(graph.value(graph.Find("updated")).producer);
}

std::unique_ptr<Optimizer> MakeOptimizer(Session& session,
                                         const Models& models) {
  return std::make_unique<Optimizer>(models.identifiers(), &session.state,
                                     SessionOptions{}, session.environment);
}

// Steps with the given gradients of w, which the train graph does not see.
void StepWith(Session& session, Optimizer& optimizer, const Floats& gradient) {
  std::ranges::copy(gradient,
                    session.state.Gradient("w")->values<float>().begin());
  optimizer.Step();
}

void ExpectNear(const Floats& actual, const Floats& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

TEST(Conformance, Line30_OptimizerInputsAreStrict) {
  const Models models = WithOptimizer([](Graph& graph) {
    std::vector<ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
    std::swap(inputs[0], inputs[1]);
    graph.SetInputs(inputs);
  });
  Session session;
  const Thrown thrown = ErrorOf([&] { MakeOptimizer(session, models); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("learning_rate, step, params, gradients, "
                             "first_order_moments, second_order_moments"),
            std::string::npos)
      << thrown.text;
  EXPECT_NE(thrown.text.find("step, learning_rate, params"), std::string::npos)
      << thrown.text;
  EXPECT_TRUE(session.state.store().groups.empty());
}

TEST(Conformance, Line31_ThereIsExactlyOneOptimizerNode) {
  const Models none = WithOptimizer(
      [](Graph& graph) { OptimizerNode(graph).op_type = "LambOptimizer"; });
  const Models two = WithOptimizer([](Graph& graph) {
    Node second = OptimizerNode(graph);
    second.outputs = {graph.AddValue("updated_too")};
    graph.AddNode(std::move(second));
  });
  Session session;
  Thrown thrown = ErrorOf([&] { MakeOptimizer(session, none); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("it has 0"), std::string::npos) << thrown.text;
  thrown = ErrorOf([&] { MakeOptimizer(session, two); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidGraph);
  EXPECT_NE(thrown.text.find("it has 2"), std::string::npos) << thrown.text;
}

TEST(Conformance, Line32_MomentsAreZeroAtFirst) {
  Session session;
  const auto adam = MakeOptimizer(session, Models::Default());
  ASSERT_EQ(session.state.store().groups.size(), 1u);
  const OptimizerGroup& group = session.state.store().groups.at("group0");
  ASSERT_EQ(group.parameters.size(), 1u);  // w; b is frozen
  const Moments& moments = group.parameters.at("w");
  ASSERT_EQ(moments.size(), 2u);
  EXPECT_EQ(Values(moments.at("momentum0")), (Floats{0, 0}));
  EXPECT_EQ(Values(moments.at("momentum1")), (Floats{0, 0}));
  session.Step(3, 5);
  adam->Step();
  EXPECT_NE(Values(moments.at("momentum0")), (Floats{0, 0}));
  EXPECT_NE(session.w(), (Floats{1, -2}));

  Session other;
  const auto sgd = MakeOptimizer(other, Models::Default("SGDOptimizerV2"));
  const Moments& sgd_moments =
      other.state.store().groups.at("group0").parameters.at("w");
  ASSERT_EQ(sgd_moments.size(), 1u);
  EXPECT_TRUE(sgd_moments.contains("momentum0"));
}

TEST(Conformance, Line33_TheCounterAdvancesOnlyWithAnUpdate) {
  // The node's last input says whether to update.
  const Models models = WithOptimizer([](Graph& graph) {
    bool no = false;
    OptimizerNode(graph).inputs.push_back(graph.AddInitializer(
        TensorData::Copy("signal", Tensor(Shape{1}, &no))));
  });
  Session session;
  const auto stopped = MakeOptimizer(session, models);
  StepWith(session, *stopped, {1, 2});
  EXPECT_EQ(stopped->step_count(), 0);
  EXPECT_EQ(session.w(), (Floats{1, -2}));

  // With four steps behind it, the corrections of zero moments are those of
  // step 5.
  const auto running = MakeOptimizer(session, Models::Default());
  running->SetLearningRate(0.1f);
  session.state.store().groups.at("group0").step = 4;
  StepWith(session, *running, {1, 2});
  const double bias1 = 1 - std::pow(0.9, 5), bias2 = 1 - std::pow(0.999, 5);
  const double update = 0.1 / (bias1 * std::sqrt(0.001 / bias2));
  EXPECT_NEAR(session.w()[0], 1 - 0.1 * 0.01 - 0.1 * update, 1e-6);
  EXPECT_EQ(running->step_count(), 5);
  EXPECT_EQ(stopped->step_count(), 5);  // one counter for the state
}

TEST(Conformance, Line34_TheRateIsOneThousandthAtFirst) {
  Session session;
  const auto optimizer = MakeOptimizer(session, Models::Default());
  EXPECT_EQ(optimizer->GetLearningRate(), 0.001f);
  EXPECT_EQ(optimizer->GetInitialLearningRate(), 0.001f);
  optimizer->SetLearningRate(0.5f);
  EXPECT_EQ(optimizer->GetLearningRate(), 0.5f);
  EXPECT_EQ(optimizer->GetInitialLearningRate(), 0.001f);
  optimizer->SetInitialLearningRate(0.25f);
  EXPECT_EQ(optimizer->GetLearningRate(), 0.25f);
  EXPECT_EQ(optimizer->GetInitialLearningRate(), 0.25f);
}

TEST(Conformance, Line35_TheRateIsRestored) {
  Session session;
  const Models models = Models::Default();
  const auto optimizer = MakeOptimizer(session, models);
  optimizer->SetInitialLearningRate(0.25f);
  optimizer->SetLearningRate(0.125f);
  const auto path =
      std::filesystem::path(testing::TempDir()) / "line35_checkpoint";
  session.state.Save(path, /*include_optimizer_state=*/true);
  CheckpointState loaded = CheckpointState::Load(path, session.environment);
  std::filesystem::remove(path);
  Module module(models.identifiers(), &loaded, {}, session.environment);
  Optimizer resumed(models.identifiers(), &loaded, {}, session.environment);
  EXPECT_EQ(resumed.GetInitialLearningRate(), 0.25f);
  EXPECT_EQ(resumed.GetLearningRate(), 0.125f);
}

struct AdamCase {
  int64_t mode, correct_bias;
  float decay, epsilon, alpha, beta;
  Floats expected;
};

TEST(Conformance, Line36_AdamW) {
  const AdamCase cases[] = {
      {0, 1, .01f, 1e-8f, .9f, .999f, {0.83655286f, -2.18356729f}},
      {1, 1, .01f, 1e-6f, .9f, .999f, {0.83672297f, -2.18337369f}},
      {1, 0, .1f, 1e-3f, .8f, .9f, {0.86296815f, -2.06708431f}},
  };
  for (const AdamCase& c : cases) {
    const Models models = WithOptimizer([&](Graph& graph) {
      Node& node = OptimizerNode(graph);
      node.SetAttribute("adam_mode", c.mode);
      node.SetAttribute("correct_bias", c.correct_bias);
      node.SetAttribute("weight_decay", c.decay);
      node.SetAttribute("epsilon", c.epsilon);
      node.SetAttribute("alpha", c.alpha);
      node.SetAttribute("beta", c.beta);
    });
    Session session;
    const auto optimizer = MakeOptimizer(session, models);
    optimizer->SetLearningRate(0.1f);
    StepWith(session, *optimizer, {.5f, 1});
    StepWith(session, *optimizer, {-.25f, 2});
    StepWith(session, *optimizer, {.125f, -3});
    ExpectNear(session.w(), c.expected, 1e-5f);
  }
  Session session;  // all defaults of the op
  const auto optimizer = MakeOptimizer(session, Models::Default());
  optimizer->SetLearningRate(0.1f);
  StepWith(session, *optimizer, {.5f, 1});
  ExpectNear(session.w(), {0.899f, -2.09800005f}, 1e-5f);
}

TEST(Conformance, Line37_Sgd) {
  Session session;
  const auto optimizer =
      MakeOptimizer(session, Models::Default("SGDOptimizerV2"));
  optimizer->SetLearningRate(0.25f);
  StepWith(session, *optimizer, {4, -8});
  EXPECT_EQ(session.w(), (Floats{0, 0}));
  EXPECT_EQ(optimizer->step_count(), 1);
}

TEST(Conformance, Line38_ClipGradNorm) {
  const Models models = WithOptimizer(
      [](Graph& graph) {
        const ValueId gradients = graph.Find("gradients");
        const ValueId clipped = graph.AddValue("clipped");
        graph.value(clipped).type = graph.value(gradients).type;
        graph.ReplaceUses(gradients, clipped);
        Node clip;
        clip.op_type = "InplaceClipGradNorm";
        clip.domain = "com.microsoft";
        clip.inputs = {gradients};
        clip.outputs = {clipped};
        clip.SetAttribute("max_norm", 1.0f);
        graph.InsertNode(0, std::move(clip));
      },
      "SGDOptimizerV2");
  Session session;
  const auto optimizer = MakeOptimizer(session, models);
  optimizer->SetLearningRate(1);
  StepWith(session, *optimizer, {3, 4});
  // The gradients themselves are clipped.
  ExpectNear(session.gradient(), {0.5999999f, 0.7999998f}, 1e-6f);
  ExpectNear(session.w(), {1 - 0.5999999f, -2 - 0.7999998f}, 1e-6f);
  StepWith(session, *optimizer, {.3f, .4f});
  EXPECT_EQ(session.gradient(), (Floats{.3f, .4f}));
}

// Gives group0 the moments of `parameter` by name.
void AddMoments(CheckpointState& state, const std::string& parameter,
                std::initializer_list<const char*> names,
                const Shape& shape = {2}) {
  OptimizerGroup& group = state.store().groups["group0"];
  group.parameters[parameter];
  for (const char* name : names) {
    const TensorBlock& block = group.blocks.emplace_back(
        std::vector<TensorInfo>{{DataType::kFloat32, shape}});
    group.parameters[parameter][name] = block.tensors()[0];
  }
}

TEST(Conformance, Line39_PartialOptimizerStates) {
  Session lacking_parameter;
  AddMoments(lacking_parameter.state, "b", {"momentum0", "momentum1"});
  Thrown thrown =
      ErrorOf([&] { MakeOptimizer(lacking_parameter, Models::Default()); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("\"w\" was not found"), std::string::npos)
      << thrown.text;

  Session lacking_moment;
  AddMoments(lacking_moment.state, "w", {"momentum0"});
  thrown = ErrorOf([&] { MakeOptimizer(lacking_moment, Models::Default()); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("momentum1"), std::string::npos) << thrown.text;

  Session wrong_shape;
  AddMoments(wrong_shape.state, "w", {"momentum0", "momentum1"}, Shape{3});
  thrown = ErrorOf([&] { MakeOptimizer(wrong_shape, Models::Default()); });
  EXPECT_EQ(thrown.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(thrown.text.find("(3)"), std::string::npos) << thrown.text;

  // AdamW's state in an SGD model: the surplus is kept.
  Session surplus;
  AddMoments(surplus.state, "w", {"momentum0", "momentum1", "extra"});
  AddMoments(surplus.state, "b", {"momentum0"});
  const auto sgd = MakeOptimizer(surplus, Models::Default("SGDOptimizerV2"));
  sgd->Step();
  const auto path =
      std::filesystem::path(testing::TempDir()) / "line39_checkpoint";
  surplus.state.Save(path, /*include_optimizer_state=*/true);
  const auto loaded = CheckpointState::Load(path, surplus.environment);
  std::filesystem::remove(path);
  const auto& parameters = loaded.store().groups.at("group0").parameters;
  EXPECT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters.at("w").size(), 3u);
}

TEST(Conformance, Line40_AnEmptyGroupKeepsStepAndRate) {
  Session session;
  OptimizerGroup& group = session.state.store().groups["group0"];
  group.step = 7;
  group.initial_learning_rate = group.learning_rate = 0.5f;
  const auto optimizer = MakeOptimizer(session, Models::Default());
  EXPECT_EQ(optimizer->step_count(), 7);
  EXPECT_EQ(optimizer->GetInitialLearningRate(), 0.5f);
  EXPECT_EQ(Values(group.parameters.at("w").at("momentum1")), (Floats{0, 0}));
}

TEST(Conformance, Line41_OtherGroupsAreKeptAndUnused) {
  Session session;
  session.state.store().groups["mine"].step = 3;
  const auto optimizer = MakeOptimizer(session, Models::Default());
  session.Step(3, 5);
  optimizer->Step();
  EXPECT_EQ(session.state.store().groups.at("mine").step, 3);
  EXPECT_TRUE(session.state.store().groups.at("mine").parameters.empty());
  EXPECT_EQ(session.state.store().groups.at("group0").step, 1);
}

struct ScheduleCase {
  int64_t warmup, total;
  Floats factors;
};

TEST(Conformance, Line42_LinearSchedule) {
  const ScheduleCase cases[] = {
      {0, 4, {1, .75f, .5f, .25f, 0, 0, 0}},
      {2, 4, {0, .5f, 1, .5f, 0, 0, 0}},
      {4, 4, {0, .25f, .5f, .75f, 0, 0, 0}},
      {6, 4, {0, 1 / 6.f, 1 / 3.f, .5f, 2 / 3.f, 5 / 6.f, 0}},
      {0, 0, {0, 0, 0, 0}},
      {-2, 4, {2 / 3.f, .5f, 1 / 3.f, 1 / 6.f, 0, 0, 0}},
      {0, -4, {0, 0, 0, 0}},
      {INT64_MIN, INT64_MAX, {.5f}},
  };
  for (const ScheduleCase& c : cases) {
    Session session;
    const std::shared_ptr<Optimizer> optimizer =
        MakeOptimizer(session, Models::Default("SGDOptimizerV2"));
    optimizer->SetInitialLearningRate(1);
    LinearLRScheduler scheduler(optimizer, c.warmup, c.total);
    for (size_t k = 0; k < c.factors.size(); ++k) {
      EXPECT_NEAR(optimizer->GetLearningRate(), c.factors[k], 1e-6f)
          << "warm-up " << c.warmup << ", total " << c.total << ", step " << k;
      optimizer->Step();
      scheduler.Step();
    }
  }
}

TEST(LinearLRScheduler, MayBeginAtALaterStep) {
  Session session;
  const std::shared_ptr<Optimizer> optimizer =
      MakeOptimizer(session, Models::Default("SGDOptimizerV2"));
  optimizer->SetInitialLearningRate(1);
  for (int i = 0; i < 3; ++i) optimizer->Step();
  LinearLRScheduler scheduler(optimizer, 2, 4, /*first_step=*/3);
  for (float factor : {0.f, .5f, 1.f, .5f, 0.f, 0.f}) {
    EXPECT_EQ(optimizer->GetLearningRate(), factor);
    optimizer->Step();
    scheduler.Step();
  }
  // Before it begins it stands at its beginning.
  LinearLRScheduler late(optimizer, 0, 4, /*first_step=*/100);
  EXPECT_EQ(optimizer->GetLearningRate(), 1);
  LinearLRScheduler never(optimizer, 0, 18, /*first_step=*/INT64_MIN);
  EXPECT_EQ(optimizer->GetLearningRate(), .5f);
}

// A TrainingSession over the tiny model.
struct Whole {
  explicit Whole(const Models& models = Models::Default("SGDOptimizerV2"))
      : session(environment, {}, {}, &state, models.identifiers()) {}

  TrainingSession::SchedulerFactory Linear(int64_t warmup, int64_t total) {
    return [=](std::shared_ptr<Optimizer> optimizer) {
      return std::make_unique<LinearLRScheduler>(std::move(optimizer), warmup,
                                                 total);
    };
  }

  Environment environment;
  CheckpointState state = State(environment);
  TrainingSession session;
};

TEST(Conformance, Line43_RegisteringASchedulerLeavesTheInitialRate) {
  Whole whole;
  whole.session.RegisterScheduler(whole.Linear(2, 4), 0.5f);
  EXPECT_EQ(whole.session.GetLearningRate(), 0.5f);
  whole.session.SchedulerStep();
  EXPECT_EQ(whole.session.GetLearningRate(), 0.0f);
  // A second registration replaces the first.
  whole.session.RegisterScheduler(whole.Linear(0, 4), 0.25f);
  EXPECT_EQ(whole.session.GetLearningRate(), 0.25f);
  whole.session.SchedulerStep();
  EXPECT_EQ(whole.session.GetLearningRate(), 0.25f);
  EXPECT_EQ(ErrorOf([&] {
              whole.session.RegisterScheduler(
                  [](auto) -> std::unique_ptr<LRScheduler> { return nullptr; },
                  1);
            }).code,
            ErrorCode::kInvalidArgument);
  whole.session.SchedulerStep();  // still the second
  EXPECT_EQ(whole.session.GetLearningRate(), 0.25f);
}

TEST(Conformance, Line44_SchedulerStepsWithoutOptimizerStepsChangeNothing) {
  Whole whole;
  whole.session.RegisterScheduler(whole.Linear(0, 4), 1);
  for (int i = 0; i < 3; ++i) {
    whole.session.SchedulerStep();
    EXPECT_EQ(whole.session.GetLearningRate(), 1.0f);
  }
  whole.session.OptimizerStep();
  EXPECT_EQ(whole.session.GetLearningRate(), 1.0f);
  whole.session.SchedulerStep();
  EXPECT_EQ(whole.session.GetLearningRate(), 0.75f);
}

TEST(Conformance, Line45_AResumedScheduleGoesOn) {
  Whole whole;
  whole.session.RegisterScheduler(whole.Linear(0, 4), 1);
  whole.session.OptimizerStep();
  whole.session.OptimizerStep();
  const auto path =
      std::filesystem::path(testing::TempDir()) / "line45_checkpoint";
  whole.state.Save(path, /*include_optimizer_state=*/true);
  CheckpointState loaded = CheckpointState::Load(path, whole.environment);
  std::filesystem::remove(path);
  const Models models = Models::Default("SGDOptimizerV2");
  TrainingSession resumed(whole.environment, {}, {}, &loaded,
                          models.identifiers());
  EXPECT_EQ(resumed.optimizer().step_count(), 2);
  resumed.RegisterScheduler(whole.Linear(0, 4), 1);
  resumed.SchedulerStep();
  EXPECT_EQ(resumed.GetLearningRate(), 0.5f);
}

TEST(Conformance, Line46_WithoutAnOptimizerModel) {
  Models models = Models::Default();
  models.optimizer.clear();
  Whole whole(models);
  const std::function<void()> refused[] = {
      [&] { whole.session.OptimizerStep(); },
      [&] { whole.session.SetLearningRate(1); },
      [&] { whole.session.GetLearningRate(); },
      [&] { whole.session.RegisterScheduler(whole.Linear(0, 4), 1); },
      [&] { whole.session.SchedulerStep(); },
      [&] { whole.session.optimizer(); },
  };
  for (const auto& call : refused) {
    EXPECT_EQ(ErrorOf(call).code, ErrorCode::kFailedState);
  }
  Session session(models);
  EXPECT_EQ(ErrorOf([&] { MakeOptimizer(session, models); }).code,
            ErrorCode::kInvalidArgument);
  // Module works without.
  session.Step(3, 5);
}

TEST(Optimizer, NeedsGradients) {
  const Environment environment;
  CheckpointState state = State(environment);
  const Models models = Models::Default();
  EXPECT_EQ(ErrorOf([&] {
              Optimizer(models.identifiers(), &state, {}, environment);
            }).code,
            ErrorCode::kFailedState);
  EXPECT_TRUE(state.store().groups.empty());
}

TEST(Optimizer, NeedsATrainableParameter) {
  const Environment environment;
  CheckpointState state(environment);
  AddParameter(state, "b", /*requires_grad=*/false, {1, 2});
  const Models models = Models::Default();
  EXPECT_EQ(ErrorOf([&] {
              Optimizer(models.identifiers(), &state, {}, environment);
            }).code,
            ErrorCode::kInvalidArgument);
}

TEST(TrainingSession, CompletingANominalStateMakesTheMoments) {
  const golden::Case golden("nominal");
  const Environment environment;
  CheckpointState state =
      CheckpointState::Load(golden.file("nominal_checkpoint"), environment);
  TrainingSession session(environment, {}, {}, &state, golden.models());
  const OwnedTensor buffer(DataType::kFloat32,
                           {session.GetParametersSize(false)});
  session.CopyBufferToParameters(buffer, /*trainable_only=*/false);
  EXPECT_EQ(state.store().groups.at("group0").parameters.size(), 3u);
}

}  // namespace
}  // namespace strop::tiny
