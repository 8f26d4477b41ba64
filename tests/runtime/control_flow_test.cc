// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan beyond ONNX's own cases: sub-graphs in sub-graphs, no
// iterations, random numbers, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "control_graphs.h"
#include "runtime/executor.h"

namespace strop {
namespace {

// v + x, or v - x: both come from graphs around.
std::shared_ptr<const Graph> Branch(const std::string& op) {
  Graph graph = NewGraph(op);
  const ValueId v = Outer(graph, "v"), x = Outer(graph, "x");
  const ValueId result = graph.AddValue("branch_" + op);
  graph.AddNode(MakeNode(op, {v, x}, {result}));
  graph.MarkOutput(result);
  return Share(std::move(graph));
}

// v -> (v + x if `plus`, else v - x), and v as it was.
std::shared_ptr<const Graph> AddingBody() {
  Graph graph = NewGraph("body");
  graph.AddInput("i", ScalarOf(DataType::kInt64));
  const ValueId go_on = graph.AddInput("go_on", ScalarOf(DataType::kBool));
  const ValueId v = graph.AddInput("v", FloatsOf());
  const ValueId next = graph.AddValue("next");
  const ValueId seen = graph.AddValue("seen", FloatsOf(2));
  Node choose = MakeNode("If", {Outer(graph, "plus")}, {next});
  choose.SetAttribute("then_branch", Branch("Add"));
  choose.SetAttribute("else_branch", Branch("Sub"));
  graph.AddNode(std::move(choose));
  graph.AddNode(MakeNode("Identity", {v}, {seen}));
  graph.SetOutputs({go_on, next, seen});
  return Share(std::move(graph));
}

// The inputs "x", "plus" and "count"; outputs a Loop over `body`.
Graph LoopOver(std::shared_ptr<const Graph> body) {
  Graph graph = NewGraph("main");
  const ValueId x = graph.AddInput("x", FloatsOf());
  graph.AddInput("plus", ScalarOf(DataType::kBool));
  const ValueId count = graph.AddInput("count", ScalarOf(DataType::kInt64));
  const ValueId last = graph.AddValue("last"), all = graph.AddValue("all");
  Node loop = MakeNode("Loop", {count, ValueId{}, x}, {last, all});
  loop.SetAttribute("body", std::move(body));
  graph.AddNode(std::move(loop));
  graph.SetOutputs({last, all});
  return graph;
}

struct Result {
  std::vector<float> last, all;
  Shape all_shape;
};

class LoopRunner {
 public:
  explicit LoopRunner(std::shared_ptr<const Graph> body)
      : executor_(Lower(LoopOver(std::move(body))), std::make_shared<Arena>(),
                  {}) {}

  Result Run(std::vector<float> x, bool plus, int64_t count,
             const RandomKey& random = {}) {
    const Argument inputs[] = {
        {.tensor = Tensor(Shape{std::ssize(x)}, x.data()), .list = {}},
        {.tensor = Tensor(Shape{}, &plus), .list = {}},
        {.tensor = Tensor(Shape{}, &count), .list = {}}};
    executor_.Run(inputs, random);
    return {Values(0), Values(1), executor_.output(1).shape()};
  }

 private:
  std::vector<float> Values(size_t output) const {
    const auto values = executor_.output(output).values<float>();
    return {values.begin(), values.end()};
  }

  Executor executor_;
};

TEST(ControlFlow, SubgraphsReadTheGraphsAround) {
  LoopRunner runner(AddingBody());
  for (int times = 0; times < 2; ++times) {
    Result result = runner.Run({1, 5}, /*plus=*/true, 3);
    EXPECT_EQ(result.last, (std::vector<float>{4, 20}));
    EXPECT_EQ(result.all, (std::vector<float>{1, 5, 2, 10, 3, 15}));
    EXPECT_EQ(result.all_shape, (Shape{3, 2}));
    result = runner.Run({1, 5}, /*plus=*/false, 2);
    EXPECT_EQ(result.last, (std::vector<float>{-1, -5}));
    EXPECT_EQ(result.all, (std::vector<float>{1, 5, 0, 0}));
  }
}

TEST(ControlFlow, NoIterationGivesTheStateAndAnEmptyStack) {
  const Result result = LoopRunner(AddingBody()).Run({1, 5}, true, 0);
  EXPECT_EQ(result.last, (std::vector<float>{1, 5}));
  EXPECT_EQ(result.all_shape, (Shape{0, 2}));
}

// v goes through, and what Dropout makes of it is stacked.
std::shared_ptr<const Graph> DroppingBody() {
  Graph graph = NewGraph("body");
  graph.AddInput("i", ScalarOf(DataType::kInt64));
  const ValueId go_on = graph.AddInput("go_on", ScalarOf(DataType::kBool));
  const ValueId v = graph.AddInput("v", FloatsOf());
  float ratio = 0.5f;
  bool training = true;
  const ValueId inputs[] = {
      v, graph.AddInitializer(TensorData::Copy("ratio", Tensor({}, &ratio))),
      graph.AddInitializer(TensorData::Copy("train", Tensor({}, &training)))};
  const ValueId dropped = graph.AddValue("dropped");
  graph.AddNode(
      MakeNode("Dropout", {std::begin(inputs), std::end(inputs)}, {dropped}));
  graph.SetOutputs({go_on, v, dropped});
  return Share(std::move(graph));
}

TEST(ControlFlow, RandomNumbersDifferByIterationAndStep) {
  LoopRunner runner(DroppingBody());
  const std::vector<float> ones(64, 1.0f);
  const RandomKey first = {.seed = 1, .node = 0, .step = 1};
  const RandomKey second = {.seed = 1, .node = 0, .step = 2};
  const std::vector<float> all = runner.Run(ones, true, 2, first).all;
  const std::vector<float> one(all.begin(), all.begin() + 64);
  const std::vector<float> two(all.begin() + 64, all.end());
  EXPECT_NE(one, ones);
  EXPECT_NE(one, two);
  EXPECT_NE(runner.Run(ones, true, 2, second).all, all);
  EXPECT_EQ(runner.Run(ones, true, 2, first).all, all);
}

// A branch that draws as the graph around does: the same node, the same seed.
TEST(ControlFlow, SubgraphsInSubgraphsDrawOtherNumbers) {
  const auto branch = [](std::shared_ptr<const Graph> inner) {
    Graph graph = NewGraph("branch");
    const ValueId shape = graph.AddValue("drawn");
    Node draw = MakeNode("RandomUniform", {}, {shape});
    draw.SetAttribute("shape", std::vector<int64_t>{8});
    draw.SetAttribute("seed", 3.0f);
    graph.AddNode(std::move(draw));
    graph.MarkOutput(shape);
    if (inner) {
      const ValueId nested = graph.AddValue("nested");
      Node choose = MakeNode("If", {Outer(graph, "plus")}, {nested});
      choose.SetAttribute("then_branch", inner);
      choose.SetAttribute("else_branch", inner);
      graph.AddNode(std::move(choose));
      graph.MarkOutput(nested);
    }
    return Share(std::move(graph));
  };
  Graph graph = NewGraph("main");
  const ValueId plus = graph.AddInput("plus", ScalarOf(DataType::kBool));
  const ValueId a = graph.AddValue("a"), b = graph.AddValue("b");
  Node choose = MakeNode("If", {plus}, {a, b});
  for (const char* name : {"then_branch", "else_branch"}) {
    choose.SetAttribute(name, branch(branch(nullptr)));
  }
  graph.AddNode(std::move(choose));
  graph.SetOutputs({a, b});
  Executor executor(Lower(std::move(graph)), std::make_shared<Arena>(), {});
  bool yes = true;
  const Argument input = {.tensor = Tensor(Shape{}, &yes), .list = {}};
  executor.Run({&input, 1}, {.seed = 1, .node = 0, .step = 0});
  const auto outer = executor.output(0).values<float>();
  const auto inner = executor.output(1).values<float>();
  EXPECT_FALSE(std::equal(outer.begin(), outer.end(), inner.begin()));
}

std::string ErrorOf(Graph graph) {
  try {
    Executor executor(Lower(std::move(graph)), std::make_shared<Arena>(), {});
    std::vector<float> x = {1, 2};
    bool plus = true;
    int64_t count = 2;
    const Argument inputs[] = {
        {.tensor = Tensor(Shape{2}, x.data()), .list = {}},
        {.tensor = Tensor(Shape{}, &plus), .list = {}},
        {.tensor = Tensor(Shape{}, &count), .list = {}}};
    executor.Run(inputs, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ControlFlow, WrongSubgraphsAreNamed) {
  Graph without = LoopOver(AddingBody());
  without.node(without.order()[0]).RemoveAttribute("body");
  EXPECT_EQ(ErrorOf(std::move(without)),
            "[Loop \"Loop\"] has no sub-graph \"body\"");

  Graph few = *AddingBody();
  few.SetOutputs({few.Find("go_on"), few.Find("next")});
  EXPECT_EQ(ErrorOf(LoopOver(Share(std::move(few)))),
            "[Loop \"Loop\"] its sub-graph \"body\" has 3 inputs and 2 "
            "outputs, wanted are 3 and 3");

  Graph no_condition = *AddingBody();
  no_condition.SetOutputs({no_condition.Find("v"), no_condition.Find("next"),
                           no_condition.Find("seen")});
  EXPECT_EQ(ErrorOf(LoopOver(Share(std::move(no_condition)))),
            "[Loop \"Loop\"] the condition of the sub-graph must be one bool, "
            "not float32 of shape (2)");

  Graph writing = *AddingBody();
  writing.opset_imports["com.microsoft"] = 1;
  Node accumulate =
      MakeNode("InPlaceAccumulatorV2", {Outer(writing, "x"), writing.Find("v")},
               {writing.AddValue("done")});
  accumulate.domain = "com.microsoft";
  writing.AddNode(std::move(accumulate));
  EXPECT_EQ(ErrorOf(LoopOver(Share(std::move(writing)))),
            "[InPlaceAccumulatorV2 \"InPlaceAccumulatorV2\"] writes into its "
            "input, which a sub-graph may not");

  Graph nowhere = *AddingBody();
  const ValueId lost = Outer(nowhere, "lost");
  nowhere.SetOutputs({nowhere.Find("go_on"), lost, nowhere.Find("seen")});
  EXPECT_NE(ErrorOf(LoopOver(Share(std::move(nowhere)))).find("\"lost\""),
            std::string::npos);
}

}  // namespace
}  // namespace strop
