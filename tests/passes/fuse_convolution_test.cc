// SPDX-License-Identifier: Apache-2.0
//
// Passes over convolutions, their normalization, activation and pools.
#include <gtest/gtest.h>

#include "graph/print.h"
#include "passes/net.h"
#include "passes/passes.h"

namespace strop {
namespace {

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
  const ValueId high = net.Scalar("high", 6);
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
  const ValueId low = net.Scalar("low", 1);
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
  const ValueId zero = net.Scalar("zero", 0);
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
  const ValueId zero = net.Scalar("zero", 0);
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
  const ValueId zero = net.Scalar("zero", 0);
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
  const ValueId low = net.Scalar("low", 0), high = net.Scalar("high", 6);
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
  const ValueId low = net.Scalar("low", 0), high = net.Scalar("high", 6);
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

}  // namespace
}  // namespace strop
