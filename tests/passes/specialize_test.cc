// SPDX-License-Identifier: Apache-2.0
#include "passes/specialize.h"

#include <gtest/gtest.h>

#include "graph/print.h"
#include "passes/net.h"
#include "passes/passes.h"
#include "strop/error.h"

namespace strop {
namespace {

ValueId Scalar(Net& net, const char* name, float value) {
  const OwnedTensor tensor(DataType::kFloat32, {});
  tensor.view().values<float>()[0] = value;
  return net.graph.AddInitializer(TensorData::Copy(name, tensor.view()));
}

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

// Relu and MaxPool over x and, from dp, their gradients.
struct PooledRelu {
  ValueId x, y, p, dp, dx;
};

PooledRelu AddPooledRelu(Net& net) {
  PooledRelu made;
  made.x = net.Input("x", {1, 1, 4, 4});
  made.dp = net.Input("dp", {1, 1, 2, 2});
  made.y = net.Op("Relu", {made.x}, {"y"})[0];
  const auto pool = net.Op("MaxPool", {made.y}, {"p", "indices"});
  made.p = pool[0];
  const ValueId dy = net.Op("MaxPoolGrad", {made.dp, pool[1], made.y}, {"dy"},
                            {}, kInternal)[0];
  made.dx = net.Microsoft("ReluGrad", {dy, made.y}, "dx");
  net.graph.MarkOutput(made.p);
  net.graph.MarkOutput(made.dx);
  return made;
}

TEST(PoolBeforeRelu, BothDirectionsChangePlaces) {
  Net net;
  const PooledRelu made = AddPooledRelu(net);
  PoolBeforeRelu(net.graph);
  EXPECT_EQ(net.Ops(), "MaxPool Relu ReluGrad MaxPoolGrad");
  const Node& pool = net.Only("MaxPool");
  EXPECT_EQ(pool.inputs[0], made.x);
  EXPECT_EQ(net.Only("Relu").inputs[0], pool.outputs[0]);
  EXPECT_EQ(net.Only("Relu").outputs[0], made.p);
  EXPECT_EQ(net.Only("ReluGrad").inputs,
            (std::vector<ValueId>{made.dp, made.p}));
  const Node& grad = net.Only("MaxPoolGrad");
  EXPECT_EQ(grad.inputs, (std::vector<ValueId>{net.Only("ReluGrad").outputs[0],
                                               pool.outputs[1], made.x}));
  EXPECT_EQ(grad.outputs[0], made.dx);
}

TEST(PoolBeforeRelu, AReluWithAnotherReaderStays) {
  Net net;
  const PooledRelu made = AddPooledRelu(net);
  net.graph.MarkOutput(net.Op("Abs", {made.y}, {"skip"})[0]);
  PoolBeforeRelu(net.graph);
  EXPECT_EQ(net.Ops(), "Relu MaxPool MaxPoolGrad ReluGrad Abs");
}

TEST(PoolBeforeRelu, IndicesThatAreAResultStay) {
  Net net;
  AddPooledRelu(net);
  net.graph.MarkOutput(net.Only("MaxPool").outputs[1]);
  PoolBeforeRelu(net.graph);
  EXPECT_EQ(net.Ops(), "Relu MaxPool MaxPoolGrad ReluGrad");
}

TEST(FuseConv, ReluAndClipJoinWhereNoGradientPasses) {
  Net net;
  const ValueId x = net.Input("x", {1, 3, 4, 4});
  const ValueId w = net.Input("w", {3, 3, 1, 1});
  const ValueId v = net.Input("v", {3, 3, 1, 1});
  const ValueId high = Scalar(net, "high", 6);
  const ValueId a = net.Op("Conv", {x, w}, {"a"})[0];
  const ValueId b = net.Op("Clip", {a, {}, high}, {"b"})[0];
  const ValueId c = net.Op("Conv", {b, v}, {"c"})[0];
  const ValueId y = net.Op("Relu", {c}, {"y"})[0];
  net.graph.MarkOutput(y);
  FuseConv(net.graph);
  EXPECT_EQ(net.Ops(), "FusedConv FusedConv");
  EXPECT_EQ(net.Only("FusedConv").outputs[0], b);
}

TEST(FuseConv, AConvolutionThatTrainsStays) {
  Net net;
  const ValueId x = net.Input("x", {1, 3, 4, 4});
  const ValueId w = net.Input("w", {3, 3, 1, 1});
  const ValueId dy = net.Input("dy", {1, 3, 4, 4});
  const ValueId a = net.Op("Conv", {x, w}, {"a"})[0];
  net.graph.MarkOutput(net.Op("Relu", {a}, {"y"})[0]);
  net.graph.MarkOutput(net.Microsoft("ConvGrad", {dy, x, w}, "dx"));
  FuseConv(net.graph);
  EXPECT_EQ(net.Ops(), "Conv Relu ConvGrad");
}

TEST(FuseConv, AClipThatMovesZeroStays) {
  Net net;
  const ValueId x = net.Input("x", {1, 3, 4, 4});
  const ValueId w = net.Input("w", {3, 3, 1, 1});
  const ValueId low = Scalar(net, "low", 1);
  const ValueId a = net.Op("Conv", {x, w}, {"a"})[0];
  net.graph.MarkOutput(net.Op("Clip", {a, low}, {"y"})[0]);
  FuseConv(net.graph);
  EXPECT_EQ(net.Ops(), "Conv Clip");
}

TEST(FuseClipGrad, OnnxRuntimesFiveNodesBecomeOne) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId dy = net.Input("dy", {2});
  const ValueId low = net.Input("low", {}), high = net.Input("high", {});
  net.graph.MarkOutput(net.Op("Clip", {x, low, high}, {"y"})[0]);
  const ValueId most = net.Op("LessOrEqual", {x, high}, {"most"})[0];
  const ValueId least = net.Op("GreaterOrEqual", {x, low}, {"least"})[0];
  const ValueId mask = net.Op("And", {least, most}, {"mask"})[0];
  const ValueId factor = net.Op("Cast", {mask}, {"factor"},
                                {{.name = "to", .value = int64_t{1}}})[0];
  net.graph.MarkOutput(net.Op("Mul", {dy, factor}, {"dx"})[0]);
  FuseClipGrad(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Clip ClipGrad");
  EXPECT_EQ(net.Only("ClipGrad").inputs,
            (std::vector<ValueId>{dy, x, low, high}));
}

TEST(FuseClipGrad, StropsSelectionBecomesOne) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId dy = net.Input("dy", {2});
  const ValueId low = net.Input("low", {}), high = net.Input("high", {});
  net.graph.MarkOutput(net.Op("Clip", {x, low, high}, {"y"})[0]);
  const ValueId below = net.Op("Less", {x, low}, {"below"})[0];
  const ValueId bounded = net.Op("Max", {x, low}, {"bounded"})[0];
  const ValueId above = net.Op("Greater", {bounded, high}, {"above"})[0];
  const ValueId outside = net.Op("Or", {below, above}, {"outside"})[0];
  const ValueId zero = Scalar(net, "zero", 0);
  net.graph.MarkOutput(net.Op("Where", {outside, zero, dy}, {"dx"})[0]);
  FuseClipGrad(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Clip ClipGrad");
  EXPECT_EQ(net.Only("ClipGrad").inputs,
            (std::vector<ValueId>{dy, x, low, high}));
}

TEST(FuseClipGrad, OneBoundIsEnough) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId dy = net.Input("dy", {2});
  const ValueId high = net.Input("high", {});
  net.graph.MarkOutput(net.Op("Clip", {x, {}, high}, {"y"})[0]);
  const ValueId above = net.Op("Greater", {x, high}, {"above"})[0];
  const ValueId zero = Scalar(net, "zero", 0);
  net.graph.MarkOutput(net.Op("Where", {above, zero, dy}, {"dx"})[0]);
  FuseClipGrad(net.graph);
  EXPECT_EQ(net.Only("ClipGrad").inputs,
            (std::vector<ValueId>{dy, x, {}, high}));
}

TEST(FuseClipGrad, AMaskWithoutAClipIsLeftAlone) {
  Net net;
  const ValueId x = net.Input("x", {2});
  const ValueId dy = net.Input("dy", {2});
  const ValueId high = net.Input("high", {2});  // one a position
  const ValueId above = net.Op("Greater", {x, high}, {"above"})[0];
  const ValueId zero = Scalar(net, "zero", 0);
  net.graph.MarkOutput(net.Op("Where", {above, zero, dy}, {"dx"})[0]);
  FuseClipGrad(net.graph);
  EXPECT_EQ(net.Ops(), "Greater Where");
}

// BatchNormInternal over x, y and its gradient from dz.
struct Norm {
  ValueId x, y, scale, bias, mean, inverse;
};

Norm AddNorm(Net& net, ValueId x, const std::string& prefix = "") {
  Norm norm;
  const auto input = [&](const char* stem) {
    return net.Input((prefix + stem).c_str(), {3});
  };
  norm.x = x;
  norm.scale = input("scale");
  norm.bias = input("bias");
  const ValueId mean = input("mean"), variance = input("variance");
  const std::string names[] = {prefix + "z", prefix + "m", prefix + "v",
                               prefix + "saved_mean", prefix + "saved_inv"};
  const auto made =
      net.Op("BatchNormInternal", {x, norm.scale, norm.bias, mean, variance},
             {names[0].c_str(), names[1].c_str(), names[2].c_str(),
              names[3].c_str(), names[4].c_str()},
             {}, kMicrosoft);
  norm.y = made[0];
  norm.mean = made[3];
  norm.inverse = made[4];
  net.SetDims(norm.y, {-1, 3, 4});
  return norm;
}

std::vector<ValueId> AddNormGrad(Net& net, const Norm& norm, ValueId dz) {
  auto made = net.Op("BatchNormalizationGrad",
                     {dz, norm.x, norm.scale, norm.mean, norm.inverse},
                     {"dx", "dscale", "dbias"}, {}, kMicrosoft);
  for (ValueId id : made) net.graph.MarkOutput(id);
  return made;
}

TEST(FuseBatchNorm, ReluAndItsGradientJoin) {
  Net net;
  const Norm norm = AddNorm(net, net.Input("x", {-1, 3, 4}));
  const ValueId y = net.Op("Relu", {norm.y}, {"y"})[0];
  net.graph.MarkOutput(y);
  const ValueId dy = net.Input("dy", {-1, 3, 4});
  AddNormGrad(net, norm, net.Microsoft("ReluGrad", {dy, y}, "dz"));
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(), "BatchNormActivation BatchNormActivationGrad");
  EXPECT_EQ(net.Only("BatchNormActivation").outputs[0], y);
  EXPECT_EQ(net.Only("BatchNormActivationGrad").inputs,
            (std::vector<ValueId>{dy, norm.x, norm.scale, norm.mean,
                                  norm.inverse, norm.bias}));
}

TEST(FuseBatchNorm, ClipWithConstantBoundsJoins) {
  Net net;
  const Norm norm = AddNorm(net, net.Input("x", {-1, 3, 4}));
  const ValueId low = Scalar(net, "low", 0), high = Scalar(net, "high", 6);
  net.graph.MarkOutput(net.Op("Clip", {norm.y, low, high}, {"y"})[0]);
  const ValueId dy = net.Input("dy", {-1, 3, 4});
  AddNormGrad(
      net, norm,
      net.Op("ClipGrad", {dy, norm.y, low, high}, {"dz"}, {}, kInternal)[0]);
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(), "BatchNormActivation BatchNormActivationGrad");
  for (const char* op : {"BatchNormActivation", "BatchNormActivationGrad"}) {
    EXPECT_EQ(std::get<std::vector<float>>(
                  net.Only(op).FindAttribute("activation_params")->value),
              (std::vector<float>{0, 6}));
  }
}

TEST(FuseBatchNorm, AClipWhoseGradientGoesElsewhereStays) {
  Net net;
  const Norm norm = AddNorm(net, net.Input("x", {-1, 3, 4}));
  const ValueId low = Scalar(net, "low", 0), high = Scalar(net, "high", 6);
  net.graph.MarkOutput(net.Op("Clip", {norm.y, low, high}, {"y"})[0]);
  const ValueId dy = net.Input("dy", {-1, 3, 4});
  const ValueId dz =
      net.Op("ClipGrad", {dy, norm.y, low, high}, {"dz"}, {}, kInternal)[0];
  AddNormGrad(net, norm, dz);
  net.graph.MarkOutput(dz);
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(),
            "BatchNormInternal Clip ClipGrad BatchNormalizationGrad");
}

TEST(FuseBatchNorm, AResidualJoinsAndGetsItsGradient) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3, 4});
  const Norm norm = AddNorm(net, x);
  const ValueId branch = net.Op("Abs", {x}, {"branch"})[0];
  net.SetDims(branch, {-1, 3, 4});
  const ValueId sum = net.Op("Add", {norm.y, branch}, {"sum"})[0];
  const ValueId y = net.Op("Relu", {sum}, {"y"})[0];
  net.graph.MarkOutput(y);
  const ValueId dy = net.Input("dy", {-1, 3, 4});
  const ValueId dz = net.Microsoft("ReluGrad", {dy, y}, "dz");
  AddNormGrad(net, norm, dz);
  net.graph.MarkOutput(net.Op("Neg", {dz}, {"dbranch"})[0]);
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(), "Abs BatchNormActivation BatchNormActivationGrad Neg");
  EXPECT_EQ(net.Only("BatchNormActivation").inputs[5], branch);
  const Node& grad = net.Only("BatchNormActivationGrad");
  EXPECT_EQ(grad.inputs[6], y);
  EXPECT_EQ(grad.outputs[3], dz);
}

TEST(FuseBatchNorm, ABroadcastAdditionStays) {
  Net net;
  const Norm norm = AddNorm(net, net.Input("x", {-1, 3, 4}));
  const ValueId row = net.Input("row", {1, 3, 4});
  net.graph.MarkOutput(net.Op("Add", {norm.y, row}, {"sum"})[0]);
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(), "BatchNormInternal Add");
}

TEST(FuseBatchNorm, OfTwoBranchesOneTakesTheAddition) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3, 4});
  const Norm first = AddNorm(net, x), second = AddNorm(net, x, "other_");
  const ValueId sum = net.Op("Add", {first.y, second.y}, {"sum"})[0];
  net.graph.MarkOutput(net.Op("Relu", {sum}, {"y"})[0]);
  FuseBatchNorm(net.graph);
  EXPECT_EQ(net.Ops(), "BatchNormInternal BatchNormActivation");
  EXPECT_EQ(net.Only("BatchNormActivation").inputs[5], second.y);
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

// --- FuseMatMul

Attribute Perm(std::vector<int64_t> axes) {
  return {.name = "perm",
          .value = std::move(axes),
          .ref_attr_name = {},
          .encoded = {}};
}

std::vector<int64_t> Axes(const Node& node, const char* name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute == nullptr
             ? std::vector<int64_t>{}
             : std::get<std::vector<int64_t>>(attribute->value);
}

int64_t IntOf(const Node& node, const char* name) {
  const Attribute* attribute = node.FindAttribute(name);
  return attribute == nullptr ? 0 : std::get<int64_t>(attribute->value);
}

TEST(FuseMatMul, AWeightIsReadTransposedAndTheBiasJoins) {
  Net net;
  const ValueId x = net.Input("x", {-1, 8, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId b = net.Input("b", {4});
  const ValueId wt = net.Op("Transpose", {w}, {"wt"}, {Perm({1, 0})})[0];
  const ValueId sum = net.Op("MatMul", {x, wt}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Add", {b, sum}, {"y"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(product.domain, kInternal);
  EXPECT_EQ(product.inputs, (std::vector<ValueId>{x, w, b}));
  EXPECT_EQ(IntOf(product, "transB"), 1);
  EXPECT_EQ(net.graph.value_name(product.outputs[0]), "y");
  net.graph.SortNodes();
}

TEST(FuseMatMul, HeadsAreReadAndWrittenWhereTheyLie) {
  Net net;
  const ValueId q = net.Input("q", {2, 8, 3, 4});
  const ValueId k = net.Input("k", {2, 8, 3, 4});
  const ValueId qt = net.Op("Transpose", {q}, {"qt"}, {Perm({0, 2, 1, 3})})[0];
  const ValueId kt = net.Op("Transpose", {k}, {"kt"}, {Perm({0, 2, 3, 1})})[0];
  const ValueId s = net.Op("MatMul", {qt, kt}, {"s"})[0];
  net.graph.MarkOutput(
      net.Op("Transpose", {s}, {"y"}, {Perm({0, 2, 1, 3})})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(product.inputs, (std::vector<ValueId>{q, k}));
  EXPECT_EQ(Axes(product, "permA"), (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(Axes(product, "permB"), (std::vector<int64_t>{0, 2, 3, 1}));
  EXPECT_EQ(Axes(product, "permY"), (std::vector<int64_t>{0, 2, 1, 3}));
}

TEST(FuseMatMul, ATransposeOfBatchAxesIntoColumnsStays) {
  Net net;
  const ValueId a = net.Input("a", {2, 3, 4});
  const ValueId b = net.Input("b", {2, 2, 5});
  const ValueId at = net.Op("Transpose", {a}, {"at"}, {Perm({2, 1, 0})})[0];
  const ValueId s = net.Op("MatMul", {at, b}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Transpose", {s}, {"y"}, {Perm({1, 2, 0})})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "Transpose MatMul Transpose");
  EXPECT_EQ(net.Only("MatMul").domain, kOnnx);
}

TEST(FuseMatMul, FactorsJoinWhereOnlyProductsNeedThem) {
  Net net;
  const float half = 0.5f;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {3, 3});
  const ValueId c =
      net.graph.AddInitializer(TensorData::Copy("c", Tensor(Shape{}, &half)));
  const ValueId s = net.Op("MatMul", {x, w}, {"s"})[0];
  const ValueId scaled = net.Op("Mul", {s, c}, {"scaled"})[0];
  net.graph.MarkOutput(net.Op("MatMul", {scaled, w}, {"y"})[0]);
  net.graph.MarkOutput(net.Op("MatMul", {w, scaled}, {"z"})[0]);
  const ValueId kept = net.Op("Mul", {x, c}, {"kept"})[0];
  net.graph.MarkOutput(kept);
  net.graph.MarkOutput(net.Op("MatMul", {kept, w}, {"u"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul MatMul MatMul Mul MatMul");
  const Node& first = net.graph.node(net.graph.order()[0]);
  EXPECT_EQ(std::get<float>(first.FindAttribute("alpha")->value), 0.5f);
  const Node& last = net.graph.node(net.graph.order()[4]);
  EXPECT_EQ(last.domain, kOnnx);
}

// Attention from its heads on: scores, mask, softmax, and the way back.
struct AttentionNet : Net {
  explicit AttentionNet(std::vector<int64_t> mask_dims) {
    const ValueId q = Input("q", {2, 3, 8, 4});
    const ValueId k = Input("k", {2, 3, 4, 8});
    mask = Input("mask", std::move(mask_dims));
    const ValueId scores = Op("MatMul", {q, k}, {"scores"})[0];
    const ValueId sum = Op("Add", {scores, mask}, {"sum"})[0];
    for (const ValueId id : {scores, sum}) {
      std::vector<Dimension> dims;
      for (const int64_t size : {2, 3, 8, 8}) {
        dims.push_back({.value = size, .symbol = {}});
      }
      graph.value(id).type = ValueType::OfTensor(DataType::kFloat32, dims);
    }
    p = Op("Softmax", {sum}, {"p"}, {Int("axis", -1)})[0];
    graph.MarkOutput(p);
  }
  ValueId mask, p;
};

TEST(FuseMatMul, SoftmaxWithItsMaskFollowsTheProduct) {
  AttentionNet net({8, 8});
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(std::get<std::string>(product.FindAttribute("then")->value),
            "Softmax");
  ASSERT_EQ(product.inputs.size(), 4u);
  EXPECT_FALSE(product.inputs[2]);
  EXPECT_EQ(product.inputs[3], net.mask);
  EXPECT_EQ(product.outputs[0], net.p);
}

TEST(FuseMatMul, ASumOfUnknownShapeStays) {
  AttentionNet net({5, 1, 1, 1, 1});
  net.graph.value(net.graph.Find("sum")).type.dims = std::nullopt;
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul Add Softmax");
}

TEST(FuseMatMul, SoftmaxGradFollowsTheProduct) {
  Net net;
  const ValueId dy = net.Input("dy", {2, 8, 3, 4});
  const ValueId v = net.Input("v", {2, 3, 8, 4});
  const ValueId p = net.Input("p", {2, 3, 8, 8});
  const ValueId heads =
      net.Op("Transpose", {dy}, {"heads"}, {Perm({0, 2, 1, 3})})[0];
  const ValueId dp = net.Op("FusedMatMul", {heads, v}, {"dp"},
                            {Int("transB", 1)}, kMicrosoft)[0];
  net.graph.MarkOutput(net.Op("SoftmaxGrad_13", {dp, p}, {"ds"},
                              {Int("axis", -1)}, kMicrosoft)[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul");
  const Node& product = net.Only("MatMul");
  EXPECT_EQ(std::get<std::string>(product.FindAttribute("then")->value),
            "SoftmaxGrad");
  EXPECT_EQ(product.input(3), p);
}

TEST(FuseMatMul, ABiasOfAnotherLengthStays) {
  Net net;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {3, 1});
  const ValueId b = net.Input("b", {4});  // broadcasts the product
  const ValueId sum = net.Op("MatMul", {x, w}, {"s"})[0];
  net.graph.MarkOutput(net.Op("Add", {sum, b}, {"y"})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "MatMul Add");
}

TEST(FuseMatMul, ATransposedGemmReadsTheOtherWay) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId dy = net.Input("dy", {-1, 4});
  const ValueId dw = net.Op("Gemm", {x, dy}, {"dw"}, {Int("transA", 1)})[0];
  net.graph.MarkOutput(net.Op("Transpose", {dw}, {"y"}, {Perm({1, 0})})[0]);
  FuseMatMul(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  const Node& gemm = net.Only("Gemm");
  EXPECT_EQ(gemm.inputs, (std::vector<ValueId>{dy, x}));
  EXPECT_EQ(IntOf(gemm, "transA"), 1);
  EXPECT_EQ(IntOf(gemm, "transB"), 0);
}

TEST(FuseMatMul, AGemmReadsThroughTransposes) {
  Net net;
  const ValueId x = net.Input("x", {2, 3});
  const ValueId w = net.Input("w", {4, 3});
  const ValueId wt = net.Op("Transpose", {w}, {"wt"}, {Perm({1, 0})})[0];
  net.graph.MarkOutput(net.Op("Gemm", {x, wt}, {"y"})[0]);
  FuseMatMul(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Gemm");
  EXPECT_EQ(net.Only("Gemm").inputs, (std::vector<ValueId>{x, w}));
  EXPECT_EQ(IntOf(net.Only("Gemm"), "transB"), 1);
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

// The gradient of an embedding, added to its buffer.
struct EmbeddingNet : Net {
  explicit EmbeddingNet(const char* gathered) {
    words = Input("words", {9, 4});
    indices = Input("indices", {-1}, DataType::kInt64);
    dy = Input("dy", {-1, 4});
    buffer = Input("buffer", {9, 4});
    reset = Input("reset", {1}, DataType::kBool);
    graph.MarkOutput(Op("Gather", {words, Find(gathered)}, {"rows"})[0]);
    const ValueId shape = Op("Shape", {words}, {"shape"})[0];
    const ValueId grad = Microsoft("GatherGrad", {shape, indices, dy}, "grad");
    Microsoft("InPlaceAccumulatorV2", {buffer, grad, reset}, "done");
  }
  ValueId Find(const char* name) {
    const ValueId found = graph.Find(name);
    return found ? found : Input(name, {-1}, DataType::kInt64);
  }
  ValueId words, indices, dy, buffer, reset;
};

TEST(FuseAccumulate, GatherGradAddsToTheBuffer) {
  EmbeddingNet net("indices");
  FuseAccumulate(net.graph);
  RemoveDead(net.graph);
  EXPECT_EQ(net.Ops(), "Gather GatherGradAccumulate");
  EXPECT_EQ(net.Only("GatherGradAccumulate").inputs,
            (std::vector<ValueId>{net.indices, net.dy, net.buffer, net.reset}));
}

// They might be found wrong when the buffer is half written.
TEST(FuseAccumulate, IndicesThatNoGatherHasCheckedKeepTheGatherGrad) {
  EmbeddingNet net("others");
  FuseAccumulate(net.graph);
  EXPECT_EQ(net.Ops(), "Gather Shape GatherGrad InPlaceAccumulatorV2");
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
  const std::string disabled[] = {"fuse_accumulate"};
  Specialize(net.graph, {.disabled = disabled});
  EXPECT_EQ(net.Ops(), "Gemm InPlaceAccumulatorV2");
  const std::string unknown[] = {"fuse_everything"};
  EXPECT_THROW(Specialize(net.graph, {.disabled = unknown}), Error);
}

}  // namespace
}  // namespace strop
