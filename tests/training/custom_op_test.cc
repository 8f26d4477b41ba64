// SPDX-License-Identifier: Apache-2.0
//
// Ops that a user brings.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "graph/onnx_io.h"
#include "training/tiny.h"

namespace strop::tiny {
namespace {

using Floats = std::vector<float>;

constexpr OpDef kTwice = {
    .name = "Twice",
    .domain = "example",
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, c.input(0).type, c.input(0).shape);
        },
    .reference =
        Instantiate<strop::Floats>([]<class T>(const KernelContext& c) {
          auto x = c.in<T>(0);
          auto y = c.out<T>(0);
          for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i];
        })};

// The identity until it meets a negative number.
constexpr OpDef kFragile = {
    .name = "Fragile",
    .domain = "example",
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, c.input(0).type, c.input(0).shape);
        },
    .reference =
        Instantiate<strop::Floats>([]<class T>(const KernelContext& c) {
          auto x = c.in<T>(0);
          auto y = c.out<T>(0);
          for (size_t i = 0; i < y.size(); ++i) {
            if (x[i] < 0) c.node().Fail("met a negative number");
            y[i] = x[i];
          }
        })};

// Writes nothing.
constexpr OpDef kForgetful = {
    .name = "Forgetful",
    .domain = "example",
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, c.input(0).type, c.input(0).shape);
        },
    .reference =
        Instantiate<strop::Floats>([]<class T>(const KernelContext&) {})};

// `name` goes through the custom op before its readers see it.
void Insert(Model& model, const std::string& op, const std::string& name) {
  model.opset_imports.push_back({"example", 1});
  Graph& graph = model.graph;
  graph.opset_imports["example"] = 1;
  const ValueId source = graph.Find(name);
  const ValueId behind = graph.AddValue(name + "_behind");
  graph.ReplaceUses(source, behind);
  Node node;
  node.op_type = op;
  node.domain = "example";
  node.inputs = {source};
  node.outputs = {behind};
  graph.InsertNode(0, std::move(node));
}

TEST(Conformance, Line58_CustomOpsReachEveryGraph) {
  Model train = TrainModel(), eval = EvalModel();
  Model sgd = OptimizerModel("SGDOptimizerV2");
  Insert(train, "Twice", "x");
  Insert(eval, "Twice", "x");
  Insert(sgd, "Twice", "learning_rate");
  const Models models = {.train = EncodeOnnx(train),
                         .eval = EncodeOnnx(eval),
                         .optimizer = EncodeOnnx(sgd)};
  const CustomOpDomain domain = {"example", {&kTwice}};
  const CustomOpDomain* const domains[] = {&domain};
  Session session(models, {}, domains);
  Optimizer optimizer(models.identifiers(), &session.state, {},
                      session.environment, {}, domains);
  EXPECT_EQ(session.Step(3, 5), 6 * 1 + 10 * -2 + 0.75f);
  EXPECT_EQ(session.gradient(), (Floats{6, 10}));
  optimizer.SetLearningRate(0.25f);
  optimizer.Step();
  EXPECT_EQ(session.w(), (Floats{1 - 3, -2 - 5}));
  const OwnedTensor x = FloatTensor({1, 2}, {1, 1});
  std::vector<OwnedTensor> outputs;
  session.module.EvalStep({&x.view(), 1}, &outputs);
  EXPECT_EQ(Values(outputs.at(0)), Floats{2 * -2 + 2 * -7 + 0.75f});

  const Thrown thrown = ErrorOf([&] { Session without(models); });
  EXPECT_EQ(thrown.code, ErrorCode::kNotImplemented);
  EXPECT_NE(thrown.text.find("Twice"), std::string::npos) << thrown.text;
}

TEST(CustomOps, OneThatForgetsItsOutputShowsInFilledMemory) {
  Model train = TrainModel();
  Insert(train, "Forgetful", "x");
  const Models models = {.train = EncodeOnnx(train)};
  const CustomOpDomain domain = {"example", {&kForgetful}};
  const CustomOpDomain* const domains[] = {&domain};
  SessionOptions options;
  options.config["strop.fill_memory_with_nan"] = "yes";
  EXPECT_EQ(ErrorOf([&] { Session(models, options, domains); }).code,
            ErrorCode::kInvalidArgument);
  options.config["strop.fill_memory_with_nan"] = "1";
  Session session(models, options, domains);
  for (int step = 0; step < 2; ++step)
    EXPECT_TRUE(std::isnan(session.Step(3, 5))) << step;
}

// A second trainable parameter, v, whose gradient is that of w behind the
// op Fragile.
Model WithFragileGradient() {
  Model model = TrainModel();
  model.opset_imports.push_back({"example", 1});
  Graph& graph = model.graph;
  graph.opset_imports["example"] = 1;
  const ValueType& type = graph.value(graph.Find("w")).type;
  graph.AddInput("v", type);
  const ValueId buffer = graph.AddInput("v_grad.accumulation.buffer", type);
  Node fragile;
  fragile.op_type = "Fragile";
  fragile.domain = "example";
  fragile.inputs = {graph.Find("w_grad")};
  fragile.outputs = {graph.AddValue("v_grad")};
  graph.AddNode(std::move(fragile));
  const ValueId flag = graph.AddValue("v_grad.accumulation.out");
  graph.value(flag).type =
      graph.value(graph.Find("w_grad.accumulation.out")).type;
  Node accumulate;
  accumulate.op_type = "InPlaceAccumulatorV2";
  accumulate.domain = "com.microsoft";
  accumulate.inputs = {buffer, graph.Find("v_grad"),
                       graph.Find("lazy_reset_grad")};
  accumulate.outputs = {flag};
  graph.AddNode(std::move(accumulate));
  std::vector<ValueId> outputs(graph.outputs().begin(), graph.outputs().end());
  outputs.push_back(flag);
  graph.SetOutputs(outputs);
  return model;
}

TEST(CustomOps, AnErrorInABackwardKernelChangesNoGradient) {
  const std::string train = EncodeOnnx(WithFragileGradient());
  const CustomOpDomain domain = {"example", {&kFragile}};
  const CustomOpDomain* const domains[] = {&domain};
  const Environment environment;
  CheckpointState state = State(environment);
  AddParameter(state, "v", /*requires_grad=*/true, {0, 0});
  Module module({.train = std::as_bytes(std::span(train))}, &state, {},
                environment, {}, domains);
  const OwnedTensor good = FloatTensor({1, 2}, {3, 5});
  module.TrainStep({&good.view(), 1}, nullptr);
  const OwnedTensor bad = FloatTensor({1, 2}, {3, -5});
  const Thrown thrown = ErrorOf([&] {
    module.TrainStep({&bad.view(), 1}, nullptr);
  });
  EXPECT_NE(thrown.text.find("met a negative number"), std::string::npos)
      << thrown.text;
  EXPECT_EQ(Values(*state.Gradient("w")), (Floats{3, 5}));
  EXPECT_EQ(Values(*state.Gradient("v")), (Floats{3, 5}));
}

}  // namespace
}  // namespace strop::tiny
