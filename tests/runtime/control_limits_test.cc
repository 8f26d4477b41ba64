// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: what they may hold, how often their sub-graphs are
// planned, and what is run before the step.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control_graphs.h"
#include "runtime/executor.h"

namespace strop {
namespace {

using Floats = std::vector<float>;

// Adds nodes of one output and constants to a graph.
class Builder {
 public:
  explicit Builder(const std::string& name) : graph(NewGraph(name)) {}

  ValueId Op(const std::string& op, std::vector<ValueId> inputs,
             const std::string& output) {
    const ValueId id = graph.AddValue(output);
    graph.AddNode(MakeNode(op, std::move(inputs), {id}));
    return id;
  }
  template <class T>
  ValueId Scalar(const std::string& name, T value) {
    return graph.AddInitializer(
        TensorData::Copy(name, Tensor(Shape{}, &value)));
  }
  template <class T>
  ValueId List(const std::string& name, std::vector<T> values) {
    return graph.AddInitializer(TensorData::Copy(
        name, Tensor(Shape{std::ssize(values)}, values.data())));
  }

  Graph graph;
};

// The sub-graph of a Loop that carries "v".
class LoopBody : public Builder {
 public:
  LoopBody() : Builder("body") {
    i = graph.AddInput("i", ScalarOf(DataType::kInt64));
    go_on = graph.AddInput("go_on", ScalarOf(DataType::kBool));
    v = graph.AddInput("v", FloatsOf());
  }
  std::shared_ptr<const Graph> Finish(std::vector<ValueId> outputs) {
    graph.SetOutputs(std::move(outputs));
    return Share(std::move(graph));
  }
  ValueId i, go_on, v;
};

// Adds a Loop; its outputs are those of the graph.
void AddLoop(Builder& b, std::vector<ValueId> inputs,
             std::shared_ptr<const Graph> body) {
  std::vector<ValueId> outputs;
  for (size_t i = 1; i < body->outputs().size(); ++i) {
    outputs.push_back(b.graph.AddValue("out" + std::to_string(i)));
  }
  Node loop = MakeNode("Loop", std::move(inputs), outputs);
  loop.SetAttribute("body", std::move(body));
  b.graph.AddNode(std::move(loop));
  b.graph.SetOutputs(std::move(outputs));
}

Executor Build(Builder b, ExecutorOptions options = {}) {
  return Executor(Lower(std::move(b.graph)), std::make_shared<Arena>(),
                  std::move(options));
}

Argument Arg(Floats& values) {
  return {.tensor = Tensor(Shape{std::ssize(values)}, values.data()),
          .list = {}};
}

Floats OutputOf(const Executor& executor, size_t i) {
  const auto values = executor.output(i).values<float>();
  return {values.begin(), values.end()};
}

template <class F>
std::string ErrorOf(ErrorCode code, F run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

// --- Memory

// v -> v + v; v is stacked.
std::shared_ptr<const Graph> DoublingBody() {
  LoopBody b;
  return b.Finish({b.go_on, b.Op("Add", {b.v, b.v}, "next"),
                   b.Op("Identity", {b.v}, "seen")});
}

class StackingLoop {
 public:
  explicit StackingLoop(size_t limit) : executor_(Make(limit)) {}
  void Run(int64_t count) {
    const Argument inputs[] = {Arg(x_),
                               {.tensor = Tensor(Shape{}, &count), .list = {}}};
    executor_.Run(inputs, {});
  }
  const Executor& executor() const { return executor_; }

 private:
  static Executor Make(size_t limit) {
    Builder b("main");
    const ValueId x = b.graph.AddInput("x", FloatsOf());
    const ValueId count = b.graph.AddInput("count", ScalarOf(DataType::kInt64));
    AddLoop(b, {count, ValueId{}, x}, DoublingBody());
    return Build(std::move(b), {.memory_limit_bytes = limit});
  }
  Floats x_ = Floats(64, 1.0f);  // 256 bytes
  Executor executor_;
};

TEST(ControlLimits, ALoopHoldsToTheMemoryLimit) {
  // Of two iterations: the carried value, what the sub-graph computes, two
  // pieces, and the stack of them.
  StackingLoop loop(256 * (1 + 1 + 2 + 2));
  loop.Run(2);
  EXPECT_EQ(OutputOf(loop.executor(), 0), Floats(64, 4.0f));
  // Pieces are counted as they come: in the fourth iteration there are four,
  // and the next carried value.
  const std::string error =
      ErrorOf(ErrorCode::kOutOfMemory, [&] { loop.Run(1'000'000'000'000); });
  EXPECT_EQ(error,
            "a step of graph \"main\" with these shapes holds 1792 bytes, the "
            "limit is 1536 bytes");
  // What the failed step held is given back.
  loop.Run(2);
  EXPECT_EQ(OutputOf(loop.executor(), 0), Floats(64, 4.0f));
}

TEST(ControlLimits, TheStackOfAllIterationsCounts) {
  StackingLoop enough(256 * (1 + 1 + 3 + 3));
  enough.Run(3);
  StackingLoop loop(256 * (1 + 1 + 3 + 3) - 1);
  EXPECT_EQ(ErrorOf(ErrorCode::kOutOfMemory, [&] { loop.Run(3); }),
            "a step of graph \"main\" with these shapes holds 2048 bytes, the "
            "limit is 2047 bytes");
}

TEST(ControlLimits, ASubgraphSharesTheLimitWithTheGraphAround) {
  const auto branch = [](const std::string& op) {
    Builder b(op);
    const ValueId doubled = Outer(b.graph, "doubled");
    b.graph.MarkOutput(
        b.Op(op, {doubled, Outer(b.graph, "x")}, "result_" + op));
    return Share(std::move(b.graph));
  };
  // "doubled", what the branch computes, and a copy of that.
  for (size_t limit : {3 * 256 - 1, 3 * 256}) {
    Builder b("main");
    const ValueId x = b.graph.AddInput("x", FloatsOf());
    const ValueId plus = b.graph.AddInput("plus", ScalarOf(DataType::kBool));
    b.Op("Add", {x, x}, "doubled");
    const ValueId y = b.graph.AddValue("y");
    Node choose = MakeNode("If", {plus}, {y});
    choose.SetAttribute("then_branch", branch("Add"));
    choose.SetAttribute("else_branch", branch("Sub"));
    b.graph.AddNode(std::move(choose));
    b.graph.MarkOutput(y);
    Executor executor = Build(std::move(b), {.memory_limit_bytes = limit});
    Floats values(64, 1.0f);
    for (bool yes : {true, false}) {
      const Argument inputs[] = {Arg(values),
                                 {.tensor = Tensor(Shape{}, &yes), .list = {}}};
      if (limit == 3 * 256) {
        executor.Run(inputs, {});
        EXPECT_EQ(OutputOf(executor, 0), Floats(64, yes ? 3.0f : 1.0f));
      } else {
        EXPECT_EQ(
            ErrorOf(ErrorCode::kOutOfMemory, [&] { executor.Run(inputs, {}); }),
            "a step of graph \"main\" with these shapes holds 768 bytes, the "
            "limit is 767 bytes");
      }
    }
  }
}

// --- What sub-graphs capture

// Declines, and counts how often it is asked.
class CountingProvider final : public ExecutionProvider {
 public:
  std::string_view name() const override { return "counting"; }
  KernelChoice Choose(const KernelRequest&) const override {
    ++count_;
    return KernelChoice::Decline("");
  }
  // Since the last call.
  int TakeCount() { return std::exchange(count_, 0); }

 private:
  mutable int count_ = 0;
};

// v -> v + v, in the shape that the graph around names "shape".
std::shared_ptr<const Graph> ReshapingBody() {
  LoopBody b;
  const ValueId shape = Outer(b.graph, "shape");
  const ValueId shaped = b.Op("Reshape", {b.v, shape}, "shaped");
  return b.Finish({b.go_on, b.Op("Add", {shaped, shaped}, "next")});
}

// A Loop over ReshapingBody, where "shape" is there already.
struct ReshapingLoop {
  explicit ReshapingLoop(Builder b) : executor(Finish(std::move(b))) {}

  Executor Finish(Builder b) {
    const ValueId count = b.graph.AddInput("count", ScalarOf(DataType::kInt64));
    AddLoop(b, {count, ValueId{}, b.graph.Find("x")}, ReshapingBody());
    return Build(std::move(b), {.providers = {provider}});
  }
  Floats Run(Floats x, int64_t count) {
    const Argument inputs[] = {Arg(x),
                               {.tensor = Tensor(Shape{}, &count), .list = {}}};
    executor.Run(inputs, {});
    return OutputOf(executor, 0);
  }

  std::shared_ptr<CountingProvider> provider =
      std::make_shared<CountingProvider>();
  Executor executor;
};

TEST(ControlLimits, InitializersAroundAreInitializersOfTheSubgraph) {
  Builder b("main");
  b.graph.AddInput("x", FloatsOf());
  b.List<int64_t>("shape", {2});
  {
    Builder copy = b;
    AddLoop(copy, {ValueId{}, ValueId{}, copy.graph.Find("x")},
            ReshapingBody());
    LoweredGraph lowered = Lower(std::move(copy.graph));
    LoweredBody& body = lowered.bodies.begin()->second[0];
    EXPECT_TRUE(body.captured.empty());
    // The whole sub-graph is one segment.
    Executor executor(std::move(body.lowered), std::make_shared<Arena>(), {});
    Floats v = {1, 2};
    int64_t i = 0;
    bool go_on = true;
    const Argument inputs[] = {{.tensor = Tensor(Shape{}, &i), .list = {}},
                               {.tensor = Tensor(Shape{}, &go_on), .list = {}},
                               Arg(v)};
    EXPECT_EQ(executor.Prepare(inputs).output_slots.size(), 2u);
  }
  ReshapingLoop loop(std::move(b));
  EXPECT_EQ(loop.Run({1, 2}, 5), (Floats{32, 64}));
  EXPECT_EQ(loop.provider->TakeCount(), 1);  // not once an iteration
  EXPECT_EQ(loop.Run({1, 3}, 5), (Floats{32, 96}));
  EXPECT_EQ(loop.provider->TakeCount(), 0);
}

TEST(ControlLimits, FoldedValuesAroundAreConstantsOfTheSubgraph) {
  Builder b("main");
  b.Op("Shape", {b.graph.AddInput("x", FloatsOf())}, "shape");
  ReshapingLoop loop(std::move(b));
  EXPECT_EQ(loop.Run({1, 2}, 5), (Floats{32, 64}));
  EXPECT_EQ(loop.provider->TakeCount(), 1);
  EXPECT_EQ(loop.Run({1, 2, 3}, 1), (Floats{2, 4, 6}));
  EXPECT_EQ(loop.provider->TakeCount(), 1);
  // The plan for two elements and the shape (2) is still there.
  EXPECT_EQ(loop.Run({1, 2}, 2), (Floats{4, 8}));
  EXPECT_EQ(loop.provider->TakeCount(), 0);
}

// The same shapes with other constants are another plan: the values 2 and 4
// of "shape" of x, for a sub-graph that sees the one element of "scale".
TEST(ControlLimits, PlansHoldForTheirConstantsOnly) {
  Builder b("main");
  const ValueId x = b.graph.AddInput("x", FloatsOf());
  b.Op("Shape", {x}, "shape");
  LoopBody body;
  const ValueId scale = body.Op("Cast", {Outer(body.graph, "shape")}, "scale");
  body.graph.node(body.graph.order()[0])
      .SetAttribute("to", static_cast<int64_t>(DataType::kFloat32));
  const ValueId next = body.Op("Mul", {body.v, scale}, "next");
  const ValueId one = b.List<float>("one", {1});
  const ValueId count = b.Scalar<int64_t>("count", 2);
  AddLoop(b, {count, ValueId{}, one}, body.Finish({body.go_on, next}));
  Executor executor = Build(std::move(b));
  for (int64_t n : {2, 3, 2}) {
    Floats values(static_cast<size_t>(n));
    const Argument input = Arg(values);
    executor.Run({&input, 1}, {});
    EXPECT_EQ(OutputOf(executor, 0), Floats{static_cast<float>(n * n)});
  }
}

// --- What is run before the step, and what never ends

// Whether Prepare knows the outputs, and what Run gives.
struct Outcome {
  bool folded;
  Floats values;
};

Outcome RunWithoutInputs(Builder b) {
  Executor executor = Build(std::move(b));
  const bool folded = !executor.Prepare({}).output_slots.empty();
  executor.Run({}, {});
  return {folded, OutputOf(executor, executor.graph().outputs().size() - 1)};
}

// A Loop of constants that counts from 0.
Outcome Count(int64_t iterations) {
  LoopBody body;
  const ValueId one = body.List<float>("one", {1});
  const ValueId next = body.Op("Add", {body.v, one}, "next");
  Builder b("main");
  const ValueId count = b.Scalar("count", iterations);
  const ValueId zero = b.List<float>("zero", {0});
  AddLoop(b, {count, ValueId{}, zero}, body.Finish({body.go_on, next}));
  return RunWithoutInputs(std::move(b));
}

TEST(ControlLimits, ShortLoopsOfConstantsRunBeforeTheStep) {
  const Outcome outcome = Count(100);
  EXPECT_TRUE(outcome.folded);
  EXPECT_EQ(outcome.values, Floats{100});
}

TEST(ControlLimits, LongLoopsOfConstantsRunInTheStep) {
  const Outcome outcome = Count(5000);
  EXPECT_FALSE(outcome.folded);
  EXPECT_EQ(outcome.values, Floats{5000});
}

TEST(ControlLimits, LargeResultsAreNotKeptWithThePlan) {
  // Twenty pieces of 256 bytes are more than 4096.
  for (int64_t iterations : {2, 20}) {
    Builder b("main");
    const ValueId count = b.Scalar("count", iterations);
    const ValueId x = b.List<float>("x", Floats(64, 1.0f));
    AddLoop(b, {count, ValueId{}, x}, DoublingBody());
    const Outcome outcome = RunWithoutInputs(std::move(b));
    EXPECT_EQ(outcome.folded, iterations == 2);
    ASSERT_EQ(std::ssize(outcome.values), 64 * iterations);
    EXPECT_EQ(outcome.values.back(), static_cast<float>(1 << (iterations - 1)));
  }
}

// v -> v + 1 while v < limit.
std::shared_ptr<const Graph> CountingBody(float limit) {
  LoopBody b;
  const ValueId next = b.Op("Add", {b.v, b.List<float>("one", {1})}, "next");
  const ValueId less =
      b.Op("Less", {next, b.List<float>("limit", {limit})}, "less");
  return b.Finish({less, next});
}

TEST(ControlLimits, LoopsThatEndOnDataAreLeftAlone) {
  Builder b("main");
  AddLoop(b, {ValueId{}, ValueId{}, b.List<float>("zero", {0})},
          CountingBody(3000));
  const Outcome outcome = RunWithoutInputs(std::move(b));
  EXPECT_FALSE(outcome.folded);
  EXPECT_EQ(outcome.values, Floats{3000});
}

// Float32 stands still at 2^24, so the loops inside do not end: they are not
// run before the step.
TEST(ControlLimits, PreparingEndsWhateverTheLoopsDo) {
  const auto endless = CountingBody(3e7f);
  Builder flat("main");
  AddLoop(flat, {ValueId{}, ValueId{}, flat.List<float>("zero", {0})}, endless);
  EXPECT_TRUE(Build(std::move(flat)).Prepare({}).output_slots.empty());

  LoopBody body;
  const ValueId inner = body.graph.AddValue("inner");
  Node loop = MakeNode("Loop", {ValueId{}, ValueId{}, body.v}, {inner});
  loop.SetAttribute("body", endless);
  body.graph.AddNode(std::move(loop));
  Builder nested("main");
  AddLoop(nested,
          {nested.Scalar<int64_t>("count", 3), ValueId{},
           nested.List<float>("zero", {0})},
          body.Finish({body.go_on, inner}));
  EXPECT_TRUE(Build(std::move(nested)).Prepare({}).output_slots.empty());
}

std::string EndlessError(Builder b) {
  Executor executor = Build(std::move(b));
  Floats x = {1, 2};
  bool yes = true;
  const Argument inputs[] = {Arg(x),
                             {.tensor = Tensor(Shape{}, &yes), .list = {}}};
  return ErrorOf(ErrorCode::kInvalidGraph, [&] { executor.Run(inputs, {}); });
}

TEST(ControlLimits, ALoopThatCannotEndIsAnError) {
  const std::string expected =
      "[Loop \"Loop\"] never ends: nothing limits the number of its "
      "iterations, and the condition of its sub-graph stays true";
  const auto main = [](auto condition, bool count) {
    LoopBody body;
    const ValueId next = body.Op("Add", {body.v, body.v}, "next");
    const ValueId go_on = condition(body);
    Builder b("main");
    const ValueId x = b.graph.AddInput("x", FloatsOf());
    b.graph.AddInput("yes", ScalarOf(DataType::kBool));
    const ValueId most =
        count ? b.Scalar("most", std::numeric_limits<int64_t>::max())
              : ValueId{};
    AddLoop(b, {most, ValueId{}, x}, body.Finish({go_on, next}));
    return b;
  };
  const auto passed_on = [](LoopBody& b) {
    return b.Op("Identity", {b.go_on}, "again");
  };
  const auto constant = [](LoopBody& b) { return b.Scalar("again", true); };
  const auto captured = [](LoopBody& b) {
    return b.Op("And", {b.go_on, Outer(b.graph, "yes")}, "again");
  };
  EXPECT_EQ(EndlessError(main(passed_on, false)), expected);
  EXPECT_EQ(EndlessError(main(passed_on, true)), expected);
  EXPECT_EQ(EndlessError(main(constant, false)), expected);
  EXPECT_EQ(EndlessError(main(captured, false)), expected);
}

TEST(ControlLimits, LoopsThatEndOnTheShapeOfTheirStateAreLeftAlone) {
  LoopBody body;
  const ValueId next = body.graph.AddValue("next");
  Node concat = MakeNode("Concat", {body.v, body.v}, {next});
  concat.SetAttribute("axis", int64_t{0});
  body.graph.AddNode(std::move(concat));
  const ValueId less = body.Op(
      "Less",
      {body.Op("Size", {next}, "size"), body.Scalar<int64_t>("limit", 10)},
      "less");
  Builder b("main");
  const ValueId x = b.graph.AddInput("x", FloatsOf());
  AddLoop(b, {ValueId{}, ValueId{}, x}, body.Finish({less, next}));
  Executor executor = Build(std::move(b));
  Floats values = {1, 2};
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  EXPECT_EQ(OutputOf(executor, 0).size(), 16u);
}

}  // namespace
}  // namespace strop
