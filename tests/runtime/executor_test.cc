// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/size.h"

namespace strop {
namespace {

// Ops of a test domain, so that the executor is tested without the menu.

void SameAsInput0(InferContext& c) {
  c.SetOutput(0, c.input(0).type, c.input(0).shape);
}

// y = x + 1, may be written in place.
constexpr OpDef kIncrement = {
    .name = "Increment",
    .domain = "test",
    .infer = SameAsInput0,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto x = c.in<T>(0);
      auto y = c.out<T>(0);
      for (size_t i = 0; i < y.size(); ++i) y[i] = x[i] + 1;
    }),
    .may_overwrite = {0}};

// z = x + y for equal shapes.
constexpr OpDef kPlus = {
    .name = "Plus",
    .domain = "test",
    .inputs = {2, 2},
    .infer = SameAsInput0,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto x = c.in<T>(0);
      auto y = c.in<T>(1);
      auto z = c.out<T>(0);
      for (size_t i = 0; i < z.size(); ++i) z[i] = x[i] + y[i];
    }),
    .may_overwrite = {0, 1}};

// Another shape of the same elements: all in one dimension.
constexpr OpDef kFlat = {.name = "Flat",
                         .domain = "test",
                         .infer =
                             [](InferContext& c) {
                               c.SetOutput(
                                   0, c.input(0).type,
                                   Shape{c.input(0).shape.element_count()});
                             },
                         .is_view = true};

// The positive elements of x: how many there are depends on data.
constexpr OpDef kCountPositive = {
    .name = "CountPositive",
    .domain = "test",
    .infer =
        [](InferContext& c) { c.SetOutput(0, DataType::kInt64, Shape{1}); },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      int64_t count = 0;
      for (T x : c.in<T>(0)) count += x > 0;
      c.out<int64_t>(0)[0] = count;
    })};

// The first n elements of x, n by value.
constexpr OpDef kTake = {
    .name = "Take",
    .domain = "test",
    .inputs = {2, 2},
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, c.input(0).type, Shape{c.IntValues(1)[0]});
        },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto x = c.in<T>(0);
      auto y = c.out<T>(0);
      for (size_t i = 0; i < y.size(); ++i) y[i] = x[i];
    }),
    .value_inputs = {1}};

// Writes x over a graph input; throws for negative elements before.
constexpr OpDef kStore = {
    .name = "Store",
    .domain = "test",
    .inputs = {2, 2},
    .outputs = {0, 0},
    .infer = [](InferContext&) {},
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto target = c.in<T>(0);
      auto x = c.in<T>(1);
      for (size_t i = 0; i < x.size(); ++i) const_cast<T&>(target[i]) = x[i];
    }),
    .mutates = {0}};

constexpr OpDef kRefuseNegative = {
    .name = "RefuseNegative",
    .domain = "test",
    .infer = SameAsInput0,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto x = c.in<T>(0);
      auto y = c.out<T>(0);
      for (size_t i = 0; i < y.size(); ++i) {
        if (x[i] < 0) c.node().Fail("a negative element");
        y[i] = x[i];
      }
    })};

// a + b + c, a sum at a time: c is read after a may have been written over.
constexpr OpDef kPlus3 = {
    .name = "Plus3",
    .domain = "test",
    .inputs = {3, 3},
    .infer = SameAsInput0,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      auto y = c.out<T>(0);
      for (size_t i = 0; i < y.size(); ++i)
        y[i] = c.in<T>(0)[i] + c.in<T>(1)[i];
      for (size_t i = 0; i < y.size(); ++i) y[i] += c.in<T>(2)[i];
    }),
    .may_overwrite = {0, 1}};

constexpr OpDef kHuge = {
    .name = "Huge",
    .domain = "test",
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, DataType::kFloat64,
                      Shape{int64_t{1} << 31, int64_t{1} << 30});
        },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext&) {})};

// Below what a plan refuses by itself: 2 TB.
constexpr OpDef kLarge = {
    .name = "Large",
    .domain = "test",
    .infer =
        [](InferContext& c) {
          c.SetOutput(0, DataType::kFloat64, Shape{int64_t{1} << 38});
        },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext&) {})};

const CustomOpDomain kTestDomain = {
    "test",
    {&kIncrement, &kPlus, &kFlat, &kCountPositive, &kTake, &kStore,
     &kRefuseNegative, &kPlus3, &kHuge, &kLarge}};
const CustomOpDomain* const kDomains[] = {&kTestDomain};

class GraphBuilder {
 public:
  GraphBuilder() { graph.opset_imports["test"] = 1; }
  ValueId Input(const char* name) {
    return graph.AddInput(
        name, ValueType::OfTensor(DataType::kFloat32, std::nullopt));
  }
  ValueId Op(const char* op, std::vector<ValueId> inputs, const char* output) {
    Node node;
    node.op_type = op;
    node.domain = "test";
    node.name = output == nullptr ? op : output;
    node.inputs = std::move(inputs);
    ValueId value;
    if (output != nullptr) {
      value = graph.AddValue(output);
      node.outputs = {value};
    }
    graph.AddNode(std::move(node));
    return value;
  }
  Executor Build(ExecutorOptions options = {}) {
    return Executor(Lower(std::move(graph), kDomains),
                    std::make_shared<Arena>(), std::move(options));
  }
  Graph graph;
};

Argument Arg(std::vector<float>& values) {
  Argument argument;
  argument.tensor =
      Tensor(Shape{static_cast<int64_t>(values.size())}, values.data());
  return argument;
}

std::vector<float> OutputOf(const Executor& executor, size_t i = 0) {
  const auto values = executor.output(i).values<float>();
  return {values.begin(), values.end()};
}

TEST(Executor, RunsAChainForSeveralShapesInOneSession) {
  GraphBuilder b;
  ValueId x = b.Input("x");
  for (const char* name : {"a", "b", "c"}) x = b.Op("Increment", {x}, name);
  b.graph.MarkOutput(x);
  Executor executor = b.Build();
  for (size_t n : {32, 5, 32, 1, 0, 32}) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 0.0f);
    const std::vector<float> before = values;
    const Argument input = Arg(values);
    executor.Run({&input, 1}, {});
    const std::vector<float> y = OutputOf(executor);
    ASSERT_EQ(y.size(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], before[i] + 3);
    EXPECT_EQ(values, before) << "an input was written over";
  }
}

TEST(Executor, ElementwiseChainRunsInPlace) {
  GraphBuilder b;
  ValueId x = b.Input("x");
  for (const char* name : {"a", "b", "c"}) x = b.Op("Increment", {x}, name);
  b.graph.MarkOutput(x);
  Executor executor = b.Build();
  std::vector<float> values(1000);
  const Argument input = Arg(values);
  EXPECT_EQ(executor.Prepare({&input, 1}).arena_bytes, 4032u);
}

TEST(Executor, AValueThatIsReadLaterIsNotOverwritten) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  const ValueId a = b.Op("Increment", {x}, "a");
  const ValueId c = b.Op("Increment", {a}, "c");
  b.graph.MarkOutput(b.Op("Plus", {a, c}, "sum"));
  Executor executor = b.Build();
  std::vector<float> values = {1, 2};
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  EXPECT_EQ(OutputOf(executor), (std::vector<float>{5, 7}));
}

TEST(Executor, ViewsShareMemoryWithWhatTheyLookAt) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  const ValueId flat = b.Op("Flat", {x}, "flat");
  const ValueId y = b.Op("Increment", {flat}, "y");
  b.graph.MarkOutput(y);
  b.graph.MarkOutput(b.Op("Flat", {y}, "z"));
  Executor executor = b.Build();
  std::vector<float> values = {1, 2, 3};
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  EXPECT_EQ(OutputOf(executor, 0), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(OutputOf(executor, 1), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST(Executor, ShapesThatDependOnDataRunInSegments) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  const ValueId y = b.Op("Increment", {x}, "y");
  const ValueId n = b.Op("CountPositive", {y}, "n");
  const ValueId few = b.Op("Take", {y, n}, "few");
  b.graph.MarkOutput(b.Op("Plus", {few, few}, "twice"));
  Executor executor = b.Build();
  for (std::vector<float> values :
       {std::vector<float>{1, 2, -5}, {-3, -4, -5}, {0, 0, 7}}) {
    const Argument input = Arg(values);
    executor.Run({&input, 1}, {});
    std::vector<float> expected;
    const auto positive = std::count_if(values.begin(), values.end(),
                                        [](float v) { return v + 1 > 0; });
    for (int i = 0; i < positive; ++i) expected.push_back(2 * (values[i] + 1));
    EXPECT_EQ(OutputOf(executor), expected);
  }
}

TEST(Executor, ShapesMayDependOnWhatTheCallerGives) {
  for (bool through_a_view : {false, true}) {
    GraphBuilder b;
    const ValueId x = b.Input("x");
    ValueId n = b.Input("n");
    if (through_a_view) n = b.Op("Flat", {n}, "flat");
    b.graph.MarkOutput(b.Op("Increment", {b.Op("Take", {x, n}, "few")}, "y"));
    Executor executor = b.Build();
    std::vector<float> values = {1, 2, 3};
    for (int64_t count : {2, 0, 3}) {
      const Argument inputs[] = {
          Arg(values), {.tensor = Tensor(Shape{1}, &count), .list = {}}};
      executor.Run(inputs, {});
      std::vector<float> expected = {2, 3, 4};
      expected.resize(static_cast<size_t>(count));
      EXPECT_EQ(OutputOf(executor), expected);
    }
  }
}

TEST(Executor, AViewOfAnInputSurvivesTheEndOfASegment) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  const ValueId flat = b.Op("Flat", {x}, "flat");
  const ValueId n = b.Op("CountPositive", {flat}, "n");
  b.graph.MarkOutput(b.Op("Take", {flat, n}, "few"));
  b.graph.MarkOutput(flat);
  Executor executor = b.Build();
  std::vector<float> values = {1, 2, -5};
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  EXPECT_EQ(OutputOf(executor, 0), (std::vector<float>{1, 2}));
  EXPECT_EQ(OutputOf(executor, 1), values);
}

TEST(Executor, AnInputThatIsReadTwiceIsNotOverwritten) {
  // The third input is read after the first was written over.
  GraphBuilder b;
  const ValueId a = b.Op("Increment", {b.Input("x")}, "a");
  const ValueId c = b.Op("Increment", {a}, "c");
  b.graph.MarkOutput(b.Op("Plus3", {a, c, a}, "sum"));
  Executor executor = b.Build();
  std::vector<float> values = {1, 2};
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  EXPECT_EQ(OutputOf(executor), (std::vector<float>{7, 10}));
}

TEST(Executor, AValueTooLargeForAnyMachineIsAnError) {
  GraphBuilder b;
  b.graph.MarkOutput(b.Op("Huge", {b.Input("x")}, "y"));
  Executor executor = b.Build();
  std::vector<float> values = {1};
  const Argument input = Arg(values);
  try {
    executor.Run({&input, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
  }
}

TEST(Executor, AnErrorOfMemoryNamesTheLargestValue) {
  GraphBuilder b;
  b.graph.MarkOutput(b.Op("Large", {b.Input("x")}, "y"));
  Executor executor = b.Build();
  std::vector<float> values = {1};
  const Argument input = Arg(values);
  try {
    executor.Run({&input, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with("[Large \"y\"] \"y\" is float64 of shape"))
        << error.what();
  }
}

TEST(Executor, WritesComeAfterEverythingThatCanFail) {
  // In the graph's order the write stands before the check.
  GraphBuilder b;
  const ValueId target = b.Input("target");
  const ValueId x = b.Input("x");
  const ValueId y = b.Op("Increment", {x}, "y");
  b.Op("Store", {target, y}, nullptr);
  b.graph.MarkOutput(b.Op("RefuseNegative", {x}, "checked"));
  Executor executor = b.Build();

  std::vector<float> state = {0, 0};
  std::vector<float> bad = {1, -1}, good = {1, 2};
  Argument inputs[] = {Arg(state), Arg(bad)};
  EXPECT_THROW(executor.Run(inputs, {}), Error);
  EXPECT_EQ(state, (std::vector<float>{0, 0}));
  inputs[1] = Arg(good);
  executor.Run(inputs, {});
  EXPECT_EQ(state, (std::vector<float>{2, 3}));
}

TEST(Executor, HookRunsBeforeWritesAndCanStopThem) {
  GraphBuilder b;
  const ValueId target = b.Input("target");
  const ValueId x = b.Input("x");
  const ValueId y = b.Op("Increment", {x}, "y");
  b.Op("Store", {target, y}, nullptr);
  b.graph.MarkOutput(y);
  Executor executor = b.Build();
  std::vector<float> state = {0}, values = {4};
  const Argument inputs[] = {Arg(state), Arg(values)};
  EXPECT_THROW(executor.Run(inputs, {},
                            [&] {
                              EXPECT_EQ(OutputOf(executor)[0], 5);
                              throw std::runtime_error("stop");
                            }),
               std::runtime_error);
  EXPECT_EQ(state[0], 0);
}

TEST(Executor, KeepsAFewPlansOnly) {
  GraphBuilder b;
  b.graph.MarkOutput(b.Op("Increment", {b.Input("x")}, "y"));
  Executor executor = b.Build({.max_plans = 2});
  for (int64_t n = 1; n < 10; ++n) {
    std::vector<float> values(static_cast<size_t>(n), 1.0f);
    const Argument input = Arg(values);
    executor.Run({&input, 1}, {});
    EXPECT_EQ(OutputOf(executor), std::vector<float>(values.size(), 2.0f));
  }
}

TEST(Executor, MemoryLimitNamesWhatIsNeeded) {
  GraphBuilder b;
  b.graph.MarkOutput(b.Op("Increment", {b.Input("x")}, "y"));
  Executor executor = b.Build({.memory_limit_bytes = 100});
  std::vector<float> values(64);
  const Argument input = Arg(values);
  try {
    executor.Run({&input, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("256 bytes"), std::string::npos);
  }
}

TEST(Lower, NamesEveryUnknownOpAtOnce) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  b.graph.MarkOutput(b.Op("Bogus", {b.Op("Nonsense", {x}, "y")}, "z"));
  try {
    Lower(std::move(b.graph), kDomains);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotImplemented);
    const std::string text = error.what();
    EXPECT_NE(text.find("[Bogus \"z\"]"), std::string::npos) << text;
    EXPECT_NE(text.find("[Nonsense \"y\"]"), std::string::npos) << text;
  }
}

TEST(Lower, RefusesAWrongNumberOfInputs) {
  GraphBuilder b;
  const ValueId x = b.Input("x");
  b.graph.MarkOutput(b.Op("Increment", {x, x}, "y"));
  EXPECT_THROW(Lower(std::move(b.graph), kDomains), Error);
}

TEST(Profiler, WritesOneEventForEachKernel) {
  GraphBuilder b;
  b.graph.MarkOutput(b.Op("Increment", {b.Input("x")}, "y"));
  Profiler profiler;
  Executor executor = b.Build({.profiler = &profiler});
  std::vector<float> values(3);
  const Argument input = Arg(values);
  executor.Run({&input, 1}, {});
  executor.Run({&input, 1}, {});
  const std::string json = profiler.ToJson();
  size_t events = 0;
  for (size_t at = json.find("\"name\":\"Increment y\"");
       at != std::string::npos;
       at = json.find("\"name\":\"Increment y\"", at + 1)) {
    ++events;
  }
  EXPECT_EQ(events, 2u);
  EXPECT_NE(json.find("(3) -> (3)"), std::string::npos) << json;
}

}  // namespace
}  // namespace strop
