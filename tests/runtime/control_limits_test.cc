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

}  // namespace
}  // namespace strop
