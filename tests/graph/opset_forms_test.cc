// SPDX-License-Identifier: Apache-2.0
//
// Each form by text: what the file says, what Strop works on, and back.
#include "graph/opset_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/onnx_io.h"
#include "graph/print.h"

namespace strop {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A graph with inputs x, y, z of type float32[2, 3, 4, 5] and one node.
struct OneNode {
  explicit OneNode(int64_t opset, DataType type = DataType::kFloat32) {
    graph.opset_imports[""] = opset;
    std::vector<Dimension> dims(4);
    for (int i = 0; i < 4; ++i) dims[static_cast<size_t>(i)].value = i + 2;
    for (const char* name : {"x", "y", "z"})
      graph.AddInput(name, ValueType::OfTensor(type, dims));
  }

  OneNode& Op(std::string op, std::vector<std::string> inputs,
              std::vector<std::pair<std::string, Attribute::Value>> attributes,
              size_t outputs = 1) {
    Node node;
    node.op_type = std::move(op);
    for (const std::string& input : inputs)
      node.inputs.push_back(graph.Find(input));
    for (size_t i = 0; i < outputs; ++i) {
      node.outputs.push_back(
          graph.AddValue(outputs == 1 ? "out" : "out" + std::to_string(i)));
    }
    for (auto& [name, value] : attributes)
      node.SetAttribute(name, std::move(value));
    graph.AddNode(std::move(node));
    return *this;
  }

  // The lines between the signature and the end, without indentation.
  std::string Body() const {
    std::string text = Print(graph);
    text.erase(0, text.find("{\n") + 2);
    text.erase(text.rfind("} ("));
    for (size_t at = 0; (at = text.find("  ", at)) != std::string::npos;)
      text.erase(at, 2);
    return text;
  }

  Graph graph;
};

// Normalizes and restores; the graph must come back as it was.
void ExpectForm(OneNode file, const std::string& normalized) {
  const std::string before = file.Body();
  NormalizeForms(file.graph);
  EXPECT_EQ(file.Body(), normalized);
  RestoreForms(file.graph);
  EXPECT_EQ(file.Body(), before);
}

// The newest spelling in a graph of an older opset, never normalized.
void ExpectRestored(OneNode graph, const std::string& restored) {
  RestoreForms(graph.graph);
  EXPECT_EQ(graph.Body(), restored);
}

void ExpectNoSpelling(OneNode graph, const std::string& why) {
  try {
    RestoreForms(graph.graph);
    FAIL() << graph.Body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kNotImplemented);
    EXPECT_THAT(e.what(), HasSubstr(why));
  }
}

TEST(OpsetForms, AxesBecomeInputs) {
  ExpectForm(OneNode(12).Op("Squeeze", {"x"}, {{"axes", Ints{0, 2}}}),
             "out_axes = int64[2] {0, 2}\n"
             "out = Squeeze(x, out_axes)\n");
  ExpectForm(OneNode(12).Op("Squeeze", {"x"}, {}), "out = Squeeze(x)\n");
  ExpectForm(OneNode(11).Op("Unsqueeze", {"x"}, {{"axes", Ints{1}}}),
             "out_axes = int64[1] {1}\n"
             "out = Unsqueeze(x, out_axes)\n");
  // The attribute comes back at its old place.
  ExpectForm(OneNode(9).Op("ReduceSum", {"x"},
                           {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}),
             "out_axes = int64[1] {1}\n"
             "out = ReduceSum(x, out_axes) {keepdims = 0}\n");
  ExpectForm(OneNode(17).Op("ReduceMean", {"x"}, {{"axes", Ints{-1}}}),
             "out_axes = int64[1] {-1}\n"
             "out = ReduceMean(x, out_axes)\n");
}

TEST(OpsetForms, NewerSpellingsStay) {
  for (const int64_t opset : {18, 28}) {
    OneNode node = OneNode(opset).Op("ReduceMean", {"x", "y"}, {});
    ExpectForm(node, "out = ReduceMean(x, y)\n");
    ExpectForm(OneNode(opset).Op("Softmax", {"x"}, {{"axis", int64_t{1}}}),
               "out = Softmax(x) {axis = 1}\n");
  }
  // Of another domain, or of opsets that are only carried.
  OneNode custom = OneNode(12).Op("Squeeze", {"x"}, {{"axes", Ints{0}}});
  custom.graph.node(custom.graph.order()[0]).domain = "custom";
  ExpectForm(custom, "out = custom.Squeeze(x) {axes = [0]}\n");
  ExpectForm(OneNode(5).Op("Squeeze", {"x"}, {{"axes", Ints{0}}}),
             "out = Squeeze(x) {axes = [0]}\n");
}

TEST(OpsetForms, SlicePadSplitTopK) {
  ExpectForm(OneNode(9).Op(
                 "Slice", {"x"},
                 {{"axes", Ints{1}}, {"ends", Ints{3}}, {"starts", Ints{0}}}),
             "out_starts = int64[1] {0}\n"
             "out_ends = int64[1] {3}\n"
             "out_axes = int64[1] {1}\n"
             "out = Slice(x, out_starts, out_ends, out_axes)\n");
  ExpectForm(OneNode(10).Op("Pad", {"x"},
                            {{"mode", std::string("constant")},
                             {"pads", Ints{0, 1}},
                             {"value", 2.5f}}),
             "out_pads = int64[2] {0, 1}\n"
             "out_value = float32[] {2.5}\n"
             "out = Pad(x, out_pads, out_value) {mode = \"constant\"}\n");
  ExpectForm(OneNode(11).Op("Split", {"x"},
                            {{"axis", int64_t{1}}, {"split", Ints{1, 2}}}, 2),
             "out0_split = int64[2] {1, 2}\n"
             "out0, out1 = Split(x, out0_split) {axis = 1}\n");
  ExpectForm(OneNode(9).Op("TopK", {"x"}, {{"k", int64_t{3}}}, 2),
             "out0_k = int64[1] {3}\n"
             "out0, out1 = TopK(x, out0_k)\n");
}

TEST(OpsetForms, BoundsHaveTheTypeOfTheData) {
  ExpectForm(OneNode(10).Op("Clip", {"x"}, {{"max", 6.0f}}),
             "out_max = float32[] {6}\n"
             "out = Clip(x, _, out_max)\n");
  ExpectForm(OneNode(6, DataType::kFloat64)
                 .Op("Clip", {"x"}, {{"max", 6.0f}, {"min", 0.5f}}),
             "out_min = float64[] {0.5}\n"
             "out_max = float64[] {6}\n"
             "out = Clip(x, out_min, out_max)\n");
}

TEST(OpsetForms, DropoutAndUpsample) {
  ExpectForm(OneNode(7).Op("Dropout", {"x"}, {{"ratio", 0.25f}}),
             "out_ratio = float32[] {0.25}\n"
             "out = Dropout(x, out_ratio)\n");
  ExpectForm(OneNode(6).Op("Dropout", {"x"}, {{"is_test", int64_t{1}}}),
             "out = Dropout(x)\n");
  ExpectForm(OneNode(6).Op("Dropout", {"x"}, {}),
             "out_training_mode = bool[] {1}\n"
             "out = Dropout(x, _, out_training_mode)\n");
  ExpectForm(
      OneNode(7).Op("Upsample", {"x"}, {{"scales", std::vector<float>{1, 2}}}),
      "out_scales = float32[2] {1, 2}\n"
      "out = Upsample(x, out_scales)\n");
}

TEST(OpsetForms, BatchNormalization) {
  const std::vector<std::string> five = {"x", "y", "y", "y", "y"};
  ExpectForm(OneNode(9).Op("BatchNormalization", five, {}, 5),
             "out0, out1, out2, out3, out4 = "
             "BatchNormalization(x, y, y, y, y) {training_mode = 1}\n");
  ExpectForm(OneNode(13).Op("BatchNormalization", five, {}),
             "out = BatchNormalization(x, y, y, y, y)\n");
  ExpectForm(
      OneNode(7).Op("BatchNormalization", five, {{"spatial", int64_t{1}}}),
      "out = BatchNormalization(x, y, y, y, y)\n");
  ExpectForm(
      OneNode(7).Op("BatchNormalization", five, {{"spatial", int64_t{0}}}),
      "out = BatchNormalization(x, y, y, y, y) {spatial = 0}\n");
  ExpectForm(OneNode(6).Op("BatchNormalization", five,
                           {{"is_test", int64_t{1}}, {"spatial", int64_t{1}}}),
             "out = BatchNormalization(x, y, y, y, y)\n");
  ExpectForm(OneNode(6).Op("BatchNormalization", five, {}),
             "out = BatchNormalization(x, y, y, y, y) {training_mode = 1}\n");
}

TEST(OpsetForms, BroadcastBelow7) {
  OneNode bias = OneNode(6);
  Dimension three;
  three.value = 3;
  bias.graph.AddInput("b", ValueType::OfTensor(DataType::kFloat32, {{three}}));
  OneNode add = bias;
  ExpectForm(add.Op("Add", {"x", "b"},
                    {{"axis", int64_t{1}}, {"broadcast", int64_t{1}}}),
             "out_unsqueeze_axes = int64[2] {-2, -1}\n"
             "out_unsqueezed = Unsqueeze(b, out_unsqueeze_axes)\n"
             "out = Add(x, out_unsqueezed)\n");
  OneNode last = bias;
  ExpectForm(last.Op("Mul", {"x", "b"},
                     {{"axis", int64_t{3}}, {"broadcast", int64_t{1}}}),
             "out = Mul(x, b)\n");
  OneNode suffix = bias;
  ExpectForm(suffix.Op("Pow", {"x", "b"}, {{"broadcast", int64_t{1}}}),
             "out = Pow(x, b)\n");
  ExpectForm(OneNode(6).Op("Add", {"x", "y"}, {}), "out = Add(x, y)\n");
  OneNode slope = bias;
  ExpectForm(slope.Op("PRelu", {"x", "b"}, {}),
             "out_unsqueeze_axes = int64[2] {-2, -1}\n"
             "out_unsqueezed = Unsqueeze(b, out_unsqueeze_axes)\n"
             "out = PRelu(x, out_unsqueezed)\n");
  ExpectForm(OneNode(6).Op("Gemm", {"x", "y", "z"},
                           {{"alpha", 2.0f}, {"broadcast", int64_t{1}}}),
             "out = Gemm(x, y, z) {alpha = 2}\n");
}

TEST(OpsetForms, ConstantsAndNames) {
  ExpectForm(OneNode(13).Op("Constant", {}, {{"value_float", 2.0f}}),
             "out = Constant() {value = float32[] {2}}\n");
  ExpectForm(OneNode(13).Op("Constant", {}, {{"value_ints", Ints{1, 2}}}),
             "out = Constant() {value = int64[2] {1, 2}}\n");
  ExpectForm(OneNode(9).Op("Scatter", {"x", "y", "z"}, {}),
             "out = ScatterElements(x, y, z)\n");
  ExpectForm(OneNode(6).Op("LSTM", {"x", "y", "z"},
                           {{"hidden_size", int64_t{4}},
                            {"output_sequence", int64_t{1}}}),
             "out = LSTM(x, y, z) {hidden_size = 4}\n");
}

TEST(OpsetForms, SubgraphsAreRewrittenToo) {
  OneNode inner = OneNode(11).Op("Squeeze", {"x"}, {{"axes", Ints{0}}});
  OneNode outer = OneNode(11).Op(
      "Loop", {"x"}, {{"body", std::make_shared<const Graph>(inner.graph)}});
  NormalizeForms(outer.graph);
  EXPECT_THAT(outer.Body(), HasSubstr("Squeeze(x, out_axes)"));
  RestoreForms(outer.graph);
  EXPECT_THAT(outer.Body(), HasSubstr("Squeeze(x) {axes = [0]}"));
}

TEST(OpsetForms, NewNodesAreSpeltForTheOpset) {
  int64_t axes[] = {1, 2};
  OneNode reduce(12);
  reduce.graph.AddInitializer(TensorData::Copy("axes", Tensor(Shape{2}, axes)));
  ExpectRestored(reduce.Op("ReduceSum", {"x", "axes"},
                           {{"keepdims", int64_t{0}},
                            {"noop_with_empty_axes", int64_t{0}}}),
                 "out = ReduceSum(x) {keepdims = 0, axes = [1, 2]}\n");
  // A constant that somebody else reads stays.
  OneNode shared(12);
  shared.graph.AddInitializer(TensorData::Copy("axes", Tensor(Shape{2}, axes)));
  shared.Op("Squeeze", {"x", "axes"}, {});
  shared.graph.MarkOutput(shared.graph.Find("axes"));
  ExpectRestored(shared,
                 "axes = int64[2] {1, 2}\n"
                 "out = Squeeze(x) {axes = [1, 2]}\n");
  ExpectRestored(
      OneNode(13).Op("Split", {"x"}, {{"num_outputs", int64_t{2}}}, 2),
      "out0, out1 = Split(x)\n");
  ExpectRestored(OneNode(6).Op("Add", {"x", "y"}, {}),
                 "out = Add(x, y) {broadcast = 1}\n");
  ExpectRestored(OneNode(9).Op("BatchNormalization", {"x", "y", "y", "y", "y"},
                               {{"training_mode", int64_t{1}}}),
                 "out, out_output1, out_output2, out_output3, out_output4 = "
                 "BatchNormalization(x, y, y, y, y)\n");
}

TEST(OpsetForms, ANodeThatWasChangedIsSpeltFromWhatItSays) {
  OneNode file = OneNode(9).Op("ReduceSum", {"x"},
                               {{"axes", Ints{1}}, {"keepdims", int64_t{0}}});
  NormalizeForms(file.graph);
  Node& node = file.graph.node(file.graph.order()[0]);
  node.SetAttribute("keepdims", int64_t{1});
  RestoreForms(file.graph);
  EXPECT_EQ(file.Body(), "out = ReduceSum(x) {keepdims = 1, axes = [1]}\n");

  OneNode moved = OneNode(9).Op("Squeeze", {"x"}, {{"axes", Ints{1}}});
  NormalizeForms(moved.graph);
  moved.graph.ReplaceUses(moved.graph.Find("x"), moved.graph.Find("y"));
  RestoreForms(moved.graph);
  EXPECT_EQ(moved.Body(), "out = Squeeze(y) {axes = [1]}\n");
}

TEST(OpsetForms, WhatHasNoOlderSpellingIsAnError) {
  ExpectNoSpelling(OneNode(12).Op("Squeeze", {"x", "y"}, {}),
                   "[Squeeze \"out\"] has no spelling in opset 12: its input "
                   "axes is not constant");
  ExpectNoSpelling(OneNode(10).Op("Clip", {"x", "y"}, {}), "min");
  int64_t steps[] = {2};
  OneNode slice(9);
  slice.graph.AddInitializer(TensorData::Copy("s", Tensor(Shape{1}, steps)));
  ExpectNoSpelling(slice.Op("Slice", {"x", "s", "s", "s", "s"}, {}),
                   "input 4 is newer");
  ExpectNoSpelling(OneNode(9).Op("TopK", {"x"}, {{"largest", int64_t{0}}}),
                   "largest");
  ExpectNoSpelling(OneNode(12).Op("ReduceSum", {"x"},
                                  {{"noop_with_empty_axes", int64_t{1}}}),
                   "noop_with_empty_axes");
}

TEST(OpsetForms, TheFilesOwnSpellingIsLeftAlone) {
  OneNode node = OneNode(6).Op("Add", {"x", "y"}, {});
  node.graph.file_spelling = true;
  ExpectRestored(node, "out = Add(x, y)\n");
}

}  // namespace
}  // namespace strop
