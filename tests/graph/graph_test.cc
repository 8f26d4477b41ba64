// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "graph/print.h"

namespace strop {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Node MakeNode(std::string op, std::vector<ValueId> inputs,
              std::vector<ValueId> outputs, std::string name = {}) {
  Node node;
  node.op_type = std::move(op);
  node.name = std::move(name);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

std::string ErrorOf(const auto& fn) {
  try {
    fn();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidGraph);
    return e.what();
  }
  return "no error";
}

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const NodeId id : graph.order()) ops.push_back(graph.node(id).op_type);
  return ops;
}

// then_branch: y = Add(x, x) with x of the graph around.
std::shared_ptr<const Graph> BranchReading(const std::string& outer_name) {
  auto branch = std::make_shared<Graph>();
  const ValueId x = branch->AddValue(outer_name);
  branch->value(x).outer = true;
  const ValueId y = branch->AddValue("y");
  branch->AddNode(MakeNode("Add", {x, x}, {y}));
  branch->MarkOutput(y);
  return branch;
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  graph.AddValue("x");
  EXPECT_THAT(ErrorOf([&] { graph.AddValue("x"); }), HasSubstr("\"x\""));
  EXPECT_THAT(ErrorOf([&] { graph.AddInput("x", {}); }), HasSubstr("\"x\""));
  EXPECT_EQ(graph.value_count(), 1u);
}

TEST(Graph, AValueHasOneSource) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId y = graph.AddValue("y");
  graph.AddNode(MakeNode("Relu", {x}, {y}));
  EXPECT_THAT(ErrorOf([&] { graph.AddNode(MakeNode("Exp", {x}, {y})); }),
              HasSubstr("[Exp \"y\"]"));
  EXPECT_THAT(ErrorOf([&] { graph.AddNode(MakeNode("Exp", {y}, {x})); }),
              HasSubstr("\"x\""));
  EXPECT_THAT(ErrorOf([&] { graph.SetInputs({x, y}); }), HasSubstr("\"y\""));
}

TEST(Graph, FreshNamesAvoidAllThatIsThere) {
  Graph graph;
  EXPECT_EQ(graph.FreshName("a"), "a");
  graph.AddValue("a");
  EXPECT_EQ(graph.FreshName("a"), "a_1");
  for (int i = 1; i <= 20; ++i) graph.AddValue("a_" + std::to_string(i));
  EXPECT_EQ(graph.FreshName("a"), "a_21");
  // Names of sub-graphs count.
  const ValueId x = graph.AddInput("x", {});
  Node node = MakeNode("If", {x}, {graph.AddValue("z")});
  node.SetAttribute("then_branch", BranchReading("x"));
  graph.AddNode(std::move(node));
  EXPECT_EQ(graph.FreshName("y"), "y_1");
}

TEST(Graph, SortKeepsAnOrderThatIsRight) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId a = graph.AddValue("a"), b = graph.AddValue("b"),
                c = graph.AddValue("c");
  graph.AddNode(MakeNode("B", {x}, {b}));
  graph.AddNode(MakeNode("A", {x}, {a}));
  graph.AddNode(MakeNode("C", {a, b}, {c}));
  graph.SortNodes();
  EXPECT_THAT(OpsOf(graph), ElementsAre("B", "A", "C"));
}

TEST(Graph, SortPutsProducersFirst) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId a = graph.AddValue("a"), b = graph.AddValue("b"),
                c = graph.AddValue("c");
  graph.AddNode(MakeNode("C", {b}, {c}));
  graph.AddNode(MakeNode("B", {a}, {b}));
  graph.AddNode(MakeNode("A", {x}, {a}));
  graph.SortNodes();
  EXPECT_THAT(OpsOf(graph), ElementsAre("A", "B", "C"));
}

TEST(Graph, SortSeesWhatSubgraphsRead) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId a = graph.AddValue("a"), z = graph.AddValue("z");
  Node node = MakeNode("If", {x}, {z});
  node.SetAttribute("then_branch", BranchReading("a"));
  graph.AddNode(std::move(node));
  graph.AddNode(MakeNode("A", {x}, {a}));
  graph.SortNodes();
  EXPECT_THAT(OpsOf(graph), ElementsAre("A", "If"));
}

TEST(Graph, ACycleIsNamed) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId a = graph.AddValue("a"), b = graph.AddValue("b"),
                c = graph.AddValue("c");
  graph.AddNode(MakeNode("Add", {x, b}, {a}, "first"));
  graph.AddNode(MakeNode("Relu", {a}, {b}, "second"));
  graph.AddNode(MakeNode("Exp", {b}, {c}, "behind"));
  const std::string text = ErrorOf([&] { graph.SortNodes(); });
  EXPECT_THAT(text, HasSubstr("[Add \"first\"]"));
  EXPECT_THAT(text, HasSubstr("[Relu \"second\"]"));
  EXPECT_THAT(text, Not(HasSubstr("behind")));
}

TEST(Graph, AValueFromNowhereIsNamed) {
  Graph graph;
  const ValueId x = graph.AddValue("x"), y = graph.AddValue("y");
  graph.AddNode(MakeNode("Relu", {x}, {y}));
  EXPECT_THAT(ErrorOf([&] { graph.SortNodes(); }),
              HasSubstr("[Relu \"y\"] reads \"x\""));
  Graph only_output;
  only_output.MarkOutput(only_output.AddValue("out"));
  EXPECT_THAT(ErrorOf([&] { only_output.SortNodes(); }), HasSubstr("\"out\""));
}

TEST(Graph, ConsumersCountEachUse) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {});
  const ValueId y = graph.AddValue("y"), z = graph.AddValue("z");
  const NodeId add = graph.AddNode(MakeNode("Add", {x, x}, {y}));
  Node node = MakeNode("If", {y}, {z});
  node.SetAttribute("then_branch", BranchReading("x"));
  const NodeId branch = graph.AddNode(std::move(node));
  const auto consumers = graph.Consumers();
  EXPECT_THAT(consumers[x.index], ElementsAre(add, add, branch, branch));
  EXPECT_THAT(consumers[y.index], ElementsAre(branch));
  EXPECT_THAT(consumers[z.index], IsEmpty());
}

TEST(Graph, ReplaceUsesReachesOutputsAndSubgraphs) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {}), w = graph.AddInput("w", {});
  const ValueId a = graph.AddValue("a"), z = graph.AddValue("z");
  graph.AddNode(MakeNode("Relu", {x}, {a}));
  Node node = MakeNode("If", {w}, {z});
  node.SetAttribute("then_branch", BranchReading("a"));
  const Node original = node;
  graph.AddNode(std::move(node));
  graph.MarkOutput(a);
  graph.ReplaceUses(a, w);
  EXPECT_EQ(Print(graph),
            "(x, w) {\n"
            "  a = Relu(x)\n"
            "  z = If(w) {then_branch = () {\n"
            "    y = Add(w, w)\n"
            "  } (y)}\n"
            "} (w)\n");
  // The graph that others may share is untouched.
  const auto& shared = std::get<std::shared_ptr<const Graph>>(
      original.FindAttribute("then_branch")->value);
  EXPECT_THAT(shared->OuterUses(), ElementsAre("a", "a"));
}

TEST(Graph, ReplaceUsesDoesNotCaptureNamesOfASubgraph) {
  // The new name is one that the sub-graph gives to its own output.
  Graph graph;
  const ValueId x = graph.AddInput("x", {}), y = graph.AddInput("y", {});
  Node node = MakeNode("If", {x}, {graph.AddValue("z")});
  node.SetAttribute("then_branch", BranchReading("x"));
  graph.AddNode(std::move(node));
  graph.ReplaceUses(x, y);
  EXPECT_EQ(Print(graph),
            "(x, y) {\n"
            "  z = If(y) {then_branch = () {\n"
            "    y_1 = Add(y, y)\n"
            "  } (y_1)}\n"
            "} ()\n");
}

TEST(Graph, RemoveNodeTakesItOutOfTheOrder) {
  Graph graph;
  const ValueId x = graph.AddInput("x", {}), y = graph.AddValue("y");
  const NodeId id = graph.AddNode(MakeNode("Relu", {x}, {y}));
  graph.RemoveNode(id);
  EXPECT_TRUE(graph.order().empty());
  EXPECT_FALSE(graph.value(y).producer);
  graph.InsertNode(0, MakeNode("Exp", {x}, {y}));
  EXPECT_THAT(OpsOf(graph), ElementsAre("Exp"));
}

TEST(Graph, AttributesAreSetAndRemoved) {
  Node node = MakeNode("Op", {}, {});
  node.SetAttribute("a", int64_t{1});
  node.SetAttribute("b", 2.0f);
  node.SetAttribute("a", std::string("three"));
  ASSERT_EQ(node.attributes.size(), 2u);
  EXPECT_EQ(std::get<std::string>(node.FindAttribute("a")->value), "three");
  node.RemoveAttribute("a");
  EXPECT_EQ(node.FindAttribute("a"), nullptr);
  EXPECT_NE(node.FindAttribute("b"), nullptr);
}

TEST(Graph, TensorDataCopiesAndViews) {
  float numbers[] = {1, 2, 3};
  const TensorData data = TensorData::Copy("w", Tensor(Shape{3}, numbers));
  numbers[0] = 7;
  EXPECT_EQ(data.view().values<float>()[0], 1);
  TensorData strings;
  strings.type = DataType::kString;
  EXPECT_THROW(strings.view(), Error);
  TensorData lost = data;
  lost.dims = {4};
  EXPECT_THROW(lost.view(), Error);
}

TEST(Graph, DescribeNamesANode) {
  Graph graph;
  const ValueId y = graph.AddValue("y");
  EXPECT_EQ(Describe(graph, MakeNode("MatMul", {}, {}, "fc1")),
            "[MatMul \"fc1\"]");
  EXPECT_EQ(Describe(graph, MakeNode("MatMul", {}, {ValueId{}, y})),
            "[MatMul \"y\"]");
  EXPECT_EQ(Describe(graph, MakeNode("MatMul", {}, {})), "[MatMul]");
}

TEST(Print, ShowsTypesConstantsAndAttributes) {
  Graph graph;
  Dimension batch, rows, unknown;
  batch.symbol = "batch";
  rows.value = 3;
  const ValueId x = graph.AddInput(
      "x", ValueType::OfTensor(DataType::kFloat32, {{batch, rows, unknown}}));
  const int64_t axes[] = {0, -1};
  const ValueId a = graph.AddInitializer(
      TensorData::Copy("axes", Tensor(Shape{2}, const_cast<int64_t*>(axes))));
  Node node =
      MakeNode("Op", {x, ValueId{}, a}, {graph.AddValue("y"), ValueId{}});
  node.domain = "com.microsoft";
  node.SetAttribute("alpha", 0.5f);
  node.SetAttribute("mode", std::string("a\"b"));
  node.SetAttribute("pads", std::vector<int64_t>{1, 2});
  graph.AddNode(std::move(node));
  graph.MarkOutput(graph.Find("y"));
  EXPECT_EQ(Print(graph),
            "(x: float32[batch, 3, ?]) {\n"
            "  axes = int64[2] {0, -1}\n"
            "  y, _ = com.microsoft.Op(x, _, axes) {alpha = 0.5, "
            "mode = \"a\\\"b\", pads = [1, 2]}\n"
            "} (y)\n");
}

}  // namespace
}  // namespace strop
