// SPDX-License-Identifier: Apache-2.0
#include "passes/specialize.h"

#include <gtest/gtest.h>

#include "graph/print.h"
#include "passes/net.h"
#include "passes/passes.h"
#include "strop/error.h"

namespace strop {
namespace {

TEST(RemoveIdentity, ReadersReadTheInput) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId y = net.Op("Identity", {x}, {"y"})[0];
  net.graph.MarkOutput(net.Op("Abs", {y}, {"z"})[0]);
  RemoveIdentity(net.graph);
  EXPECT_EQ(net.Ops(), "Abs");
  EXPECT_EQ(net.Only("Abs").inputs[0], x);
}

TEST(RemoveIdentity, GraphOutputKeepsItsName) {
  Net net;
  const ValueId x = net.Input("x", {2});
  net.graph.MarkOutput(net.Op("Identity", {x}, {"y"})[0]);
  RemoveIdentity(net.graph);
  EXPECT_EQ(net.Ops(), "Identity");
}

TEST(UseReluOutput, GradientReadsTheOutput) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId dy = net.Input("dy", {2});
  const ValueId y = net.Op("Relu", {x}, {"y"})[0];
  net.graph.MarkOutput(y);
  net.graph.MarkOutput(net.Microsoft("ReluGrad", {dy, x}, "dx"));
  UseReluOutput(net.graph);
  EXPECT_EQ(net.Only("ReluGrad").inputs[1], y);
}

TEST(NameSplitSizes, ComeFromTheShapesOfWhatWasJoined) {
  Net net;
  const ValueId a = net.Input("a", {-1, 3}), b = net.Input("b", {-1, 5});
  const ValueId dy = net.Input("dy", {-1, 8});
  const auto joined =
      net.Op("ConcatTraining", {a, b}, {"y", "lengths"},
             {{.name = "axis", .value = int64_t{1}}}, kMicrosoft);
  net.graph.MarkOutput(joined[0]);
  for (ValueId part :
       net.Op("SplitTraining", {dy, joined[1]}, {"da", "db"},
              {{.name = "axis", .value = int64_t{1}}}, kMicrosoft)) {
    net.graph.MarkOutput(part);
  }
  NameSplitSizes(net.graph);
  EXPECT_EQ(net.Ops(), "ConcatTraining Shape Shape Concat SplitTraining");
  EXPECT_EQ(net.Only("SplitTraining").inputs[1], net.Only("Concat").outputs[0]);
}

TEST(NameExpandedShapes, ExpandToTheShapeOfATensorKnowsIt) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3, 4, 4});
  const ValueId mean = net.Input("mean", {-1, 3, 1, 1});
  const ValueId shape = net.Op("Shape", {x}, {"shape"})[0];
  net.graph.MarkOutput(net.Op("Expand", {mean, shape}, {"y"})[0]);
  NameExpandedShapes(net.graph);
  EXPECT_EQ(net.Only("ExpandLike").inputs, (std::vector<ValueId>{mean, x}));
}

TEST(NameExpandedShapes, APartOfAShapeIsLeftAlone) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3, 4, 4});
  const ValueId mean = net.Input("mean", {1});
  const ValueId shape = net.Op("Shape", {x}, {"shape"},
                               {{.name = "end", .value = int64_t{2}}})[0];
  net.graph.MarkOutput(net.Op("Expand", {mean, shape}, {"y"})[0]);
  NameExpandedShapes(net.graph);
  EXPECT_EQ(net.Ops(), "Shape Expand");
}

TEST(NamePoolShapes, MaxPoolGradReadsTheShapeOfThePoolsInput) {
  Net net;
  const ValueId x = net.Input("x", {1, 1, 4, 4});
  const ValueId dy = net.Input("dy", {1, 1, 2, 2});
  const auto pool = net.Op("MaxPool", {x}, {"y", "indices"});
  net.graph.MarkOutput(net.Op("MaxPoolGrad", {dy, pool[1]}, {"dx"})[0]);
  NamePoolShapes(net.graph);
  const Node& grad = net.Only("MaxPoolGrad");
  EXPECT_EQ(grad.domain, kInternal);
  ASSERT_EQ(grad.inputs.size(), 3u);
  EXPECT_EQ(grad.inputs[2], x);
}

TEST(NamePoolShapes, AGatheredMaxPoolGradBecomesOne) {
  Net net;
  const ValueId x = net.Input("x", {-1, 1, 4, 4});
  const ValueId dy = net.Input("dy", {-1, 1, 2, 2});
  const ValueId all = net.Input("all", {1}, DataType::kInt64);
  const auto pool = net.Op("MaxPool", {x}, {"y", "indices"});
  const ValueId size = net.Op("Size", {x}, {"size"})[0];
  const ValueId places = net.Op("Reshape", {pool[1], all}, {"places"})[0];
  const ValueId flat = net.Op("Reshape", {dy, all}, {"flat"})[0];
  const ValueId sum = net.Microsoft("GatherGrad", {size, places, flat}, "sum");
  const ValueId shape = net.Op("Shape", {x}, {"shape"})[0];
  net.graph.MarkOutput(net.Op("Reshape", {sum, shape}, {"dx"})[0]);
  NamePoolShapes(net.graph);
  const Node& grad = net.Only("MaxPoolGrad");
  EXPECT_EQ(grad.domain, kInternal);
  EXPECT_EQ(grad.inputs, (std::vector<ValueId>{dy, pool[1], x}));
}

TEST(NamePoolShapes, AveragePoolGradIsFoundByTheNameOfItsResult) {
  Net net;
  const ValueId x = net.Input("x", {1, 1, 4, 4});
  const ValueId dy = net.Input("dy", {1, 1, 2, 2});
  net.graph.MarkOutput(net.Op("AveragePool", {x}, {"y"})[0]);
  net.graph.MarkOutput(net.Op("AveragePoolGrad", {dy}, {"x_grad"})[0]);
  NamePoolShapes(net.graph);
  const Node& grad = net.Only("AveragePoolGrad");
  ASSERT_EQ(grad.inputs.size(), 2u);
  EXPECT_EQ(grad.inputs[1], x);
}

TEST(NamePeepholes, LstmGradReadsThoseOfItsLstm) {
  Net net;
  std::vector<ValueId> inputs;
  for (const char* name : {"x", "w", "r", "b", "", "h", "c", "p"}) {
    inputs.push_back(*name == 0 ? ValueId{} : net.Input(name));
  }
  const auto lstm =
      net.Op("LSTMTraining", inputs,
             {"all_h", "last_h", "last_c", "all_c", "gates"}, {}, kMicrosoft);
  const ValueId none;
  net.graph.MarkOutput(net.Microsoft(
      "LSTMGrad",
      {inputs[0], inputs[1], inputs[2], none, inputs[5], inputs[6], lstm[0],
       lstm[3], lstm[4], none, net.Input("dh")},
      "dx"));
  NamePeepholes(net.graph);
  const Node& grad = net.Only("LSTMGrad");
  ASSERT_EQ(grad.inputs.size(), 13u);
  EXPECT_EQ(grad.inputs[12], inputs[7]);
  EXPECT_FALSE(grad.inputs[11]);
}

TEST(WriteBatchNormStatistics, InputsAreAssignedConstantsAreNot) {
  Net net;
  std::vector<ValueId> inputs = {net.Input("x", {2, 3}), net.Input("scale"),
                                 net.Input("bias"), net.Input("mean")};
  TensorData variance;
  variance.name = "variance";
  variance.type = DataType::kFloat32;
  variance.dims = {3};
  inputs.push_back(net.graph.AddInitializer(variance));
  const auto outputs =
      net.Op("BatchNormInternal", inputs,
             {"y", "new_mean", "new_variance", "saved_mean", "saved_inv_std"},
             {}, kMicrosoft);
  net.graph.MarkOutput(outputs[0]);
  WriteBatchNormStatistics(net.graph);
  EXPECT_EQ(net.Ops(), "BatchNormInternal Assign");
  EXPECT_EQ(net.Only("Assign").inputs,
            (std::vector<ValueId>{inputs[3], outputs[1]}));
}

TEST(RemoveDead, KeepsWritesAndWhatOutputsNeed) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId buffer = net.Input("buffer", {2});
  const ValueId reset = net.Input("reset", {1}, DataType::kBool);
  net.Op("Abs", {x}, {"unused"});
  const ValueId gradient = net.Op("Neg", {x}, {"gradient"})[0];
  net.Microsoft("InPlaceAccumulatorV2", {buffer, gradient, reset}, "done");
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Neg InPlaceAccumulatorV2");
}

TEST(RemoveDead, KeepsWhatSubgraphsRead) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId condition = net.Input("condition", {}, DataType::kBool);
  net.Op("Abs", {x}, {"inside"});
  auto branch = std::make_shared<Graph>();
  const ValueId outer = branch->AddValue("inside");
  branch->value(outer).outer = true;
  const ValueId result = branch->AddValue("result");
  Node negate;
  negate.op_type = "Neg";
  negate.inputs = {outer};
  negate.outputs = {result};
  branch->AddNode(std::move(negate));
  branch->MarkOutput(result);

  Node choice;
  choice.op_type = "If";
  choice.inputs = {condition};
  choice.outputs = {net.graph.AddValue("y")};
  for (const char* name : {"then_branch", "else_branch"}) {
    choice.SetAttribute(name, std::shared_ptr<const Graph>(branch));
  }
  net.graph.MarkOutput(choice.outputs[0]);
  net.graph.AddNode(std::move(choice));
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Abs If");
}

TEST(Specialize, ADisabledPassDoesNotRun) {
  const auto ops_without = [](std::vector<std::string> disabled) {
    Net net;
    const ValueId same = net.Op("Identity", {net.Input("x", {2})}, {"same"})[0];
    net.graph.MarkOutput(net.Op("Abs", {same}, {"y"})[0]);
    Specialize(net.graph, {.disabled = disabled});
    return net.Ops();
  };
  EXPECT_EQ(ops_without({}), "Abs");
  EXPECT_EQ(ops_without({"remove_identity"}), "Identity Abs");
  EXPECT_THROW(ops_without({"fuse_everything"}), Error);
}

// Files need not tell the types of what lies between.
TEST(Specialize, FusesWhatHasNoDeclaredTypes) {
  Net net;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId dy = net.Input("dy", {2, 3});
  const ValueId low = net.Scalar("low", 0), high = net.Scalar("high", 6);
  const ValueId zero = net.Scalar("zero", 0);
  const ValueId h = net.Op("Abs", {x}, {"h"})[0];
  net.graph.MarkOutput(net.Op("Clip", {h, low, high}, {"y"})[0]);
  const ValueId below = net.Op("Less", {h, low}, {"below"})[0];
  const ValueId most = net.Op("Max", {h, low}, {"most"})[0];
  const ValueId above = net.Op("Greater", {most, high}, {"above"})[0];
  const ValueId outside = net.Op("Or", {below, above}, {"outside"})[0];
  net.graph.MarkOutput(net.Op("Where", {outside, zero, dy}, {"dh"})[0]);
  ASSERT_EQ(net.graph.value(h).type.element, DataType::kUndefined);
  Specialize(net.graph);
  EXPECT_EQ(net.Ops(), "Abs Clip ClipGrad");
}

}  // namespace
}  // namespace strop
