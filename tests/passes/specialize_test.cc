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

Attribute Int(const char* name, int64_t value) {
  return {.name = name, .value = value, .ref_attr_name = {}, .encoded = {}};
}

TEST(FuseGemm, BiasAndReluJoin) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId b = net.Input("b", {4});
  const ValueId sum = net.Op("Gemm", {x, w, b}, {"s"}, {Int("transB", 1)})[0];
  net.graph.MarkOutput(net.Op("Relu", {sum}, {"y"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  const Node& gemm = net.Only("Gemm");
  EXPECT_EQ(gemm.domain, kInternal);
  EXPECT_EQ(net.graph.value_name(gemm.outputs[0]), "y");
  EXPECT_EQ(std::get<std::string>(gemm.FindAttribute("activation")->value),
            "Relu");
  net.graph.SortNodes();
}

TEST(FuseGemm, ReluStaysWhereTheSumIsReadElsewhere) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {3, 4});
  const ValueId sum = net.Op("Gemm", {x, w}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Relu", {sum}, {"y"})[0]);
  net.graph.MarkOutput(net.Op("Abs", {sum}, {"z"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm Relu Abs");
  EXPECT_EQ(net.Only("Gemm").domain, kInternal);
}

TEST(FuseGemm, OtherFormsOfTheBiasAreLeftAlone) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {3, 4});
  const ValueId c = net.Input("c", {-1, 4});
  net.graph.MarkOutput(net.Op("Gemm", {x, w, c}, {"s"})[0]);
  FuseGemm(net.graph);
  EXPECT_EQ(net.Only("Gemm").domain, kOnnx);
}

// dw = x' dy, added to its buffer.
struct GradientNet : Net {
  GradientNet() {
    dy = Input("dy", {-1, 4});
    x = Input("x", {-1, 3});
    buffer = Input("buffer", {4, 3});
    reset = Input("reset", {1}, DataType::kBool);
    dw = Op("Gemm", {dy, x}, {"dw"}, {Int("transA", 1)})[0];
  }
  ValueId dy, x, buffer, reset, dw;
};

TEST(FuseAccumulate, GemmWritesIntoTheBuffer) {
  GradientNet net;
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "GemmAccumulate");
  EXPECT_EQ(net.Only("GemmAccumulate").inputs,
            (std::vector<ValueId>{net.dy, net.x, net.buffer, net.reset}));
}

TEST(FuseAccumulate, AGradientThatIsReadElsewhereIsKept) {
  GradientNet net;
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  net.graph.MarkOutput(net.Op("Abs", {net.dw}, {"z"})[0]);
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2 Abs");
}

TEST(FuseAccumulate, AFlagThatIsReadKeepsTheAccumulator) {
  GradientNet net;
  net.graph.MarkOutput(net.Microsoft("InPlaceAccumulatorV2",
                                     {net.buffer, net.dw, net.reset}, "done"));
  FuseGemm(net.graph);
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2");
}

TEST(FuseAccumulate, ConvGradWritesWeightAndBias) {
  Net net;
  const ValueId dy = net.Input("dy", {1, 2, 4, 4});
  const ValueId x = net.Input("x", {1, 3, 6, 6});
  const ValueId w = net.Input("w", {2, 3, 3, 3});
  const ValueId dw_buffer = net.Input("dw_buffer", {2, 3, 3, 3});
  const ValueId db_buffer = net.Input("db_buffer", {2});
  const ValueId reset = net.Input("reset", {1}, DataType::kBool);
  const auto grads =
      net.Op("ConvGrad", {dy, x, w}, {"dx", "dw", "db"}, {}, kMicrosoft);
  net.graph.MarkOutput(grads[0]);
  net.Microsoft("InPlaceAccumulatorV2", {dw_buffer, grads[1], reset}, "a");
  net.Microsoft("InPlaceAccumulatorV2", {db_buffer, grads[2], reset}, "b");
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "ConvGradAccumulate");
  EXPECT_EQ(net.Only("ConvGradAccumulate").inputs,
            (std::vector<ValueId>{dy, x, w, dw_buffer, db_buffer, reset}));
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
  GradientNet net;
  net.Op("Abs", {net.x}, {"unused"});
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2");
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
  GradientNet net;
  net.Microsoft("InPlaceAccumulatorV2", {net.buffer, net.dw, net.reset},
                "done");
  const std::string disabled[] = {"fuse_gemm"};
  Specialize(net.graph, {.disabled = disabled});
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2");
  const std::string unknown[] = {"fuse_everything"};
  EXPECT_THROW(Specialize(net.graph, {.disabled = unknown}), Error);
}

}  // namespace
}  // namespace strop
