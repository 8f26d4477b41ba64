// SPDX-License-Identifier: Apache-2.0
#include "passes/convert_opset.h"

#include <gtest/gtest.h>

#include "graph/onnx_io.h"
#include "passes/net.h"

namespace strop {
namespace {

Model ModelOf(Net net, int64_t opset) {
  Model model;
  model.ir_version = 4;
  model.opset_imports = {{"ai.onnx", opset}};
  net.graph.opset_imports.erase("com.microsoft");
  net.graph.opset_imports[""] = opset;
  model.graph = std::move(net.graph);
  return model;
}

Model Softmax(std::vector<Attribute> attributes, int64_t opset) {
  Net net;
  const ValueId y = net.Op("Softmax", {net.Input("x", {-1, 3, 4})}, {"y"},
                           std::move(attributes))[0];
  net.graph.MarkOutput(y);
  return ModelOf(std::move(net), opset);
}

std::string ErrorOf(Model model, int64_t opset) {
  try {
    ConvertOpset(model, opset);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Reads what was written, as another program would.
Model Reread(const Model& model) {
  const std::string bytes = EncodeOnnx(model);
  return ReadOnnx(std::as_bytes(std::span(bytes)));
}

TEST(ConvertOpset, WritesAttributesAsTheInputsOfTheNewOpset) {
  Net net;
  net.graph.file_spelling = true;
  const ValueId x = net.Input("x", {-1, 3});
  const ValueId y =
      net.Op("Squeeze",
             {net.Op("Unsqueeze", {x}, {"u"},
                     {{"axes", std::vector<int64_t>{0}, "", ""}})[0]},
             {"y"}, {{"axes", std::vector<int64_t>{0}, "", ""}})[0];
  net.graph.MarkOutput(y);
  Model model = Reread(ModelOf(std::move(net), 11));
  ConvertOpset(model, 13);
  EXPECT_EQ(model.ir_version, 7);
  const Model read = Reread(model);
  EXPECT_EQ(read.graph.opset(kOnnx), 13);
  EXPECT_EQ(read.opset_imports.size(), 1u);
  for (const NodeId id : read.graph.order()) {
    EXPECT_EQ(read.graph.node(id).inputs.size(), 2u);
    EXPECT_EQ(read.graph.node(id).FindAttribute("axes"), nullptr);
  }
}

TEST(ConvertOpset, SplitSaysItsParts) {
  Net net;
  const ValueId x = net.Input("x", {4});
  for (const ValueId part : net.Op("Split", {x}, {"a", "b"}))
    net.graph.MarkOutput(part);
  Model model = ModelOf(std::move(net), 13);
  ConvertOpset(model, 18);
  const Node& split = model.graph.node(model.graph.order()[0]);
  const Attribute* parts = split.FindAttribute("num_outputs");
  ASSERT_NE(parts, nullptr);
  EXPECT_EQ(std::get<int64_t>(parts->value), 2);
}

TEST(ConvertOpset, SoftmaxOfTheLastAxisKeepsItsMeaning) {
  Model model = Softmax({{"axis", int64_t{2}, "", ""}}, 11);
  ConvertOpset(model, 13);
  const Node& node = model.graph.node(model.graph.order()[0]);
  EXPECT_EQ(std::get<int64_t>(node.FindAttribute("axis")->value), -1);
}

TEST(ConvertOpset, WhatMeansSomethingElseIsRefusedByName) {
  EXPECT_NE(ErrorOf(Softmax({}, 11), 13).find("[Softmax \"y\"]"),
            std::string::npos);
  EXPECT_EQ(ErrorOf(Softmax({}, 11), 12), "");
  Net net;
  const ValueId x = net.Input("x", {1, 1, 4, 4});
  net.graph.MarkOutput(net.Op("Upsample", {x, net.Input("s", {4})}, {"y"})[0]);
  EXPECT_NE(ErrorOf(ModelOf(std::move(net), 9), 10).find("[Upsample \"y\"]"),
            std::string::npos);
}

TEST(ConvertOpset, OnlyNewerOpsetsThatAreKnown) {
  EXPECT_EQ(ErrorOf(Softmax({}, 13), 13), "");
  EXPECT_NE(ErrorOf(Softmax({}, 13), 12).find("opset 12"), std::string::npos);
  EXPECT_NE(ErrorOf(Softmax({}, 13), 99).find("opset 99"), std::string::npos);
}

}  // namespace
}  // namespace strop
