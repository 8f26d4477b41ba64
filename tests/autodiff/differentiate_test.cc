// SPDX-License-Identifier: Apache-2.0
//
// Names, order and reach of what Differentiate writes; gradient_test.cc holds
// the values.
#include "autodiff/differentiate.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/infer_shapes.h"
#include "passes/net.h"
#include "strop/error.h"

namespace strop {
namespace {

// Differentiates `loss` by `wrt`; the names of the gradients, "" where there
// is none.
std::vector<std::string> GradientsOf(Net& net, ValueId loss,
                                     std::vector<ValueId> wrt) {
  net.graph.SetOutputs({loss});
  InferShapes(net.graph);
  const ValueId outputs[] = {loss};
  const ValueId seeds[] = {AddScalarSeed(net.graph, loss)};
  std::vector<std::string> names;
  for (const ValueId id : Differentiate(net.graph, outputs, seeds, wrt))
    names.push_back(net.graph.value_name(id));
  return names;
}

ValueId Sum(Net& net, ValueId x) {
  Attribute keepdims;
  keepdims.name = "keepdims";
  keepdims.value = int64_t{0};
  return net.Op("ReduceSum", {x}, {"loss"}, {keepdims})[0];
}

TEST(Differentiate, NamesAreThoseOfTrainingGraphs) {
  Net net;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId w = net.Input("w", {3});
  const ValueId h = net.Op("Mul", {x, w}, {"h"})[0];
  const ValueId y = net.Op("Exp", {h}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {w}),
            (std::vector<std::string>{"w_grad"}));
  EXPECT_TRUE(net.graph.Find("loss_grad"));
  EXPECT_TRUE(net.graph.Find("h_grad"));
  EXPECT_FALSE(net.graph.Find("x_grad"));  // nobody asked for it
}

TEST(Differentiate, SeveralUsesAreAddedUp) {
  Net net;
  const ValueId w = net.Input("w", {3});
  const ValueId a = net.Op("Exp", {w}, {"a"})[0];
  const ValueId b = net.Op("Tanh", {w}, {"b"})[0];
  const ValueId y = net.Op("Mul", {a, b}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {w}),
            (std::vector<std::string>{"w_grad"}));
  const Node& sum = net.Only("Sum");
  EXPECT_EQ(sum.name, "AccumulateGrad_w_grad");
  EXPECT_EQ(sum.inputs.size(), 2u);
  EXPECT_TRUE(net.graph.Find("w_grad_0"));
  EXPECT_TRUE(net.graph.Find("w_grad_1"));
}

TEST(Differentiate, ANodeMayUseAValueTwice) {
  Net net;
  const ValueId w = net.Input("w", {3});
  const ValueId y = net.Op("Mul", {w, w}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {w}),
            (std::vector<std::string>{"w_grad"}));
  EXPECT_EQ(net.Only("Sum").inputs.size(), 2u);
}

TEST(Differentiate, ByInputsAndIntermediates) {
  Net net;
  const ValueId x = net.Input("x", {3});
  const ValueId h = net.Op("Exp", {x}, {"h"})[0];
  const ValueId y = net.Op("Tanh", {h}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {h, x}),
            (std::vector<std::string>{"h_grad", "x_grad"}));
}

TEST(Differentiate, WithoutAWayThereIsNoGradient) {
  Net net;
  const ValueId x = net.Input("x", {3});
  const ValueId w = net.Input("w", {3});
  const ValueId off = net.Input("off", {3});
  net.Op("Exp", {off}, {"unread"});
  // Floor stops what comes from w.
  const ValueId stopped = net.Op("Floor", {w}, {"stopped"})[0];
  const ValueId y = net.Op("Mul", {x, stopped}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {x, w, off}),
            (std::vector<std::string>{"x_grad", "", ""}));
}

TEST(Differentiate, TwoParametersMayShareAGradient) {
  Net net;
  const ValueId a = net.Input("a", {3});
  const ValueId b = net.Input("b", {3});
  const ValueId y = net.Op("Add", {a, b}, {"y"})[0];
  EXPECT_EQ(GradientsOf(net, Sum(net, y), {a, b}),
            (std::vector<std::string>{"a_grad", "b_grad"}));
}

TEST(Differentiate, EveryBlockerIsNamedWithTheWayThroughIt) {
  Net net;
  const ValueId w = net.Input("w", {3});
  const ValueId h = net.Op("Exp", {w}, {"h"})[0];
  const ValueId a = net.Op("NoSuchOp", {h}, {"a"})[0];
  const ValueId b = net.Op("NeitherThisOne", {h}, {"b"})[0];
  const ValueId y = net.Op("Mul", {a, b}, {"y"})[0];
  try {
    GradientsOf(net, Sum(net, y), {w});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotImplemented);
    const std::string text = error.what();
    for (const char* part :
         {"[NoSuchOp \"a\"] is an unknown op", "[NeitherThisOne \"b\"]",
          "\"w\" -> \"h\" -> here -> \"a\" -> \"y\" -> \"loss\""}) {
      EXPECT_NE(text.find(part), text.npos) << part << " in " << text;
    }
  }
}

TEST(Differentiate, ALossThatIsNoScalarIsRefused) {
  Net net;
  const ValueId w = net.Input("w", {3});
  const ValueId y = net.Op("Exp", {w}, {"y"})[0];
  EXPECT_THROW(GradientsOf(net, y, {w}), Error);
}

TEST(InferShapes, SizesThatGoWithASymbolAreThatSymbol) {
  Net net;
  const ValueId x = net.Input("x", {-1, 4});
  const ValueId w = net.Input("w", {4, 5});
  const ValueId y = net.Op("MatMul", {x, w}, {"y"})[0];
  const ValueId z = net.Op("Concat", {y, y}, {"z"}, [] {
    Attribute axis;
    axis.name = "axis";
    axis.value = int64_t{0};
    return std::vector<Attribute>{axis};
  }())[0];
  const ValueId twice = net.Op("Add", {z, z}, {"twice"})[0];
  EXPECT_TRUE(InferShapes(net.graph).errors.empty());
  const auto dims = [&](ValueId id) { return *net.graph.value(id).type.dims; };
  EXPECT_EQ(dims(y)[0].symbol, "n");
  EXPECT_EQ(dims(y)[1].value, 5);
  // Twice the batch is a size of its own, the same in both.
  EXPECT_FALSE(dims(z)[0].value);
  EXPECT_TRUE(IsDerivedSymbol(dims(z)[0].symbol));
  EXPECT_EQ(dims(z)[0].symbol, dims(twice)[0].symbol);
}

TEST(InferShapes, WhatCannotBeInferredIsReported) {
  Net net;
  const ValueId a = net.Input("a", {3, 4});
  const ValueId b = net.Input("b", {5, 6});
  net.Op("MatMul", {a, b}, {"y"});
  const InferenceReport report = InferShapes(net.graph);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_NE(report.errors[0].find("inner dimensions differ"),
            std::string::npos);
}

}  // namespace
}  // namespace strop
