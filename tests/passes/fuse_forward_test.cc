// SPDX-License-Identifier: Apache-2.0
//
// What is fused before a graph is differentiated.
#include <gtest/gtest.h>

#include "ops/infer_shapes.h"
#include "passes/net.h"
#include "passes/passes.h"

namespace strop {
namespace {

ValueId Scalar(Net& net, const char* name, float value) {
  const OwnedTensor tensor(DataType::kFloat32, {});
  tensor.view().values<float>()[0] = value;
  return net.graph.AddInitializer(TensorData::Copy(name, tensor.view()));
}

ValueId Axes(Net& net, const char* name, int64_t axis) {
  const OwnedTensor tensor(DataType::kInt64, {1});
  tensor.view().values<int64_t>()[0] = axis;
  return net.graph.AddInitializer(TensorData::Copy(name, tensor.view()));
}

// The spelling of exporters; `exponent` 3 is no variance.
void AddLayerNorm(Net& net, int64_t axis, float exponent) {
  const ValueId x = net.Input("x", {-1, 4, 8});
  const ValueId scale = net.Input("scale", {8});
  const ValueId bias = net.Input("bias", {8});
  const ValueId axes = Axes(net, "axes", axis);
  const ValueId mean = net.Op("ReduceMean", {x, axes}, {"mean"})[0];
  const ValueId d = net.Op("Sub", {x, mean}, {"d"})[0];
  const ValueId two = Scalar(net, "two", exponent);
  const ValueId square = net.Op("Pow", {d, two}, {"square"})[0];
  const ValueId variance = net.Op("ReduceMean", {square, axes}, {"var"})[0];
  const ValueId epsilon = Scalar(net, "epsilon", 1e-5f);
  const ValueId sum = net.Op("Add", {variance, epsilon}, {"sum"})[0];
  const ValueId root = net.Op("Sqrt", {sum}, {"root"})[0];
  const ValueId normal = net.Op("Div", {d, root}, {"normal"})[0];
  const ValueId scaled = net.Op("Mul", {normal, scale}, {"scaled"})[0];
  net.graph.MarkOutput(net.Op("Add", {scaled, bias}, {"y"})[0]);
}

TEST(FuseLayerNorm, OneNodeIsLeft) {
  for (const int64_t axis : {-1, 2}) {
    Net net;
    AddLayerNorm(net, axis, 2);
    InferShapes(net.graph);
    FuseLayerNorm(net.graph);
    EXPECT_EQ(net.Ops(), "LayerNormalization");
    const Node& node = net.Only("LayerNormalization");
    EXPECT_EQ(net.graph.value_name(node.inputs[1]), "scale");
    EXPECT_EQ(net.graph.value_name(node.outputs[0]), "y");
    EXPECT_EQ(std::get<float>(node.FindAttribute("epsilon")->value), 1e-5f);
  }
}

TEST(FuseLayerNorm, AnotherAxisOrPowerIsLeftAlone) {
  Net middle, cube;
  AddLayerNorm(middle, 1, 2);
  AddLayerNorm(cube, -1, 3);
  FuseLayerNorm(middle.graph);
  FuseLayerNorm(cube.graph);
  EXPECT_EQ(middle.Ops().find("LayerNormalization"), std::string::npos);
  EXPECT_EQ(cube.Ops().find("LayerNormalization"), std::string::npos);
}

// x (1 + Erf(x / root)) / 2, the half at the end or at x.
void AddGelu(Net& net, bool half_first, float root) {
  const ValueId x = net.Input("x", {-1, 8});
  const ValueId divisor = Scalar(net, "root", root);
  const ValueId half = Scalar(net, "half", 0.5f);
  const ValueId one = Scalar(net, "one", 1);
  const ValueId inner = net.Op("Div", {x, divisor}, {"inner"})[0];
  const ValueId erf = net.Op("Erf", {inner}, {"erf"})[0];
  const ValueId sum = net.Op("Add", {erf, one}, {"sum"})[0];
  const ValueId first =
      net.Op("Mul", {x, half_first ? half : sum}, {"first"})[0];
  net.graph.MarkOutput(
      net.Op("Mul", {first, half_first ? sum : half}, {"y"})[0]);
}

TEST(FuseGelu, OneNodeIsLeft) {
  for (const bool half_first : {false, true}) {
    Net net;
    AddGelu(net, half_first, 1.41421354f);
    FuseGelu(net.graph);
    EXPECT_EQ(net.Ops(), "Gelu");
    EXPECT_EQ(net.Only("Gelu").domain, kMicrosoft);
  }
}

TEST(FuseGelu, AnotherDivisorIsLeftAlone) {
  Net net;
  AddGelu(net, false, 1.5f);
  FuseGelu(net.graph);
  EXPECT_EQ(net.Ops(), "Div Erf Add Mul Mul");
}

}  // namespace
}  // namespace strop
