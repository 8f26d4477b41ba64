// SPDX-License-Identifier: Apache-2.0
#include "eval_roles.h"

#include "graph/onnx_io.h"
#include "tools/support.h"

namespace strop {
namespace {

using Names = std::vector<std::string>;

// The roles in a golden case, whose parameters are the initializers of its
// bare model.
EvalRoles Golden(const std::string& name) {
  auto files = FileSystem::Default();
  const std::string folder = STROP_TEST_DATA "/golden/" + name;
  const Model bare = ReadOnnx(folder + "/model.onnx", *files);
  const Model eval = ReadOnnx(folder + "/eval_model.onnx", *files);
  return FindEvalRoles(eval.graph, [&](std::string_view value) {
    const ValueId id = bare.graph.Find(value);
    return id && bare.graph.value(id).initializer.has_value();
  });
}

TEST(EvalRoles, CrossEntropy) {
  for (const char* name : {"mlp_ce_adamw", "lenet_ce_sgd"}) {
    const EvalRoles roles = Golden(name);
    EXPECT_EQ(roles.label_inputs, Names{"labels"}) << name;
    EXPECT_EQ(roles.predictions, Names{"logits"}) << name;
  }
  EXPECT_EQ(Golden("nominal").predictions, Names{"output"});
}

TEST(EvalRoles, ComposedLosses) {
  // The eval outputs of the first two name the prediction; the others give
  // the loss only. BCE reads it through log(p) and log(1 - p).
  for (const char* name : {"mse_regression", "l1_regression", "clip_grad_norm",
                           "bce_multilabel"}) {
    const EvalRoles roles = Golden(name);
    EXPECT_EQ(roles.label_inputs, Names{"target"}) << name;
    EXPECT_EQ(roles.predictions, Names{"output"}) << name;
  }
}

TEST(EvalRoles, SeveralLabelsAndOutputs) {
  const EvalRoles roles = Golden("custom_loss");
  EXPECT_EQ(roles.label_inputs, (Names{"box_target", "kind_labels"}));
  EXPECT_EQ(roles.predictions, (Names{"boxes_out", "scores", "trunk_out"}));
}

TEST(EvalRoles, AMaskIsNoLabel) {
  const EvalRoles roles = Golden("bert_tiny");
  EXPECT_EQ(roles.label_inputs, Names{"labels"});
  EXPECT_EQ(roles.predictions, Names{"logits"});
}

// loss = mean((relu(x w) - t)^2) + mean(w^2): the penalty reads a parameter
// after the label came in.
TEST(EvalRoles, APenaltyOnTheWeightsIsNoLayer) {
  Graph graph;
  auto add = [&](std::string op, std::vector<ValueId> inputs,
                 std::string output) {
    Node node;
    node.op_type = std::move(op);
    node.inputs = std::move(inputs);
    node.outputs = {graph.AddValue(std::move(output))};
    const ValueId id = node.outputs[0];
    graph.AddNode(std::move(node));
    return id;
  };
  const ValueType type = ValueType::OfTensor(DataType::kFloat32, {});
  const ValueId x = graph.AddInput("x", type);
  const ValueId t = graph.AddInput("t", type);
  const ValueId w = graph.AddInput("w", type);
  const ValueId y = add("Relu", {add("MatMul", {x, w}, "xw")}, "y");
  const ValueId d = add("Sub", {y, t}, "d");
  const ValueId mse = add("ReduceMean", {add("Mul", {d, d}, "dd")}, "mse");
  const ValueId penalty =
      add("ReduceMean", {add("Mul", {w, w}, "ww")}, "penalty");
  graph.MarkOutput(add("Add", {mse, penalty}, "loss"));
  const EvalRoles roles =
      FindEvalRoles(graph, [](std::string_view name) { return name == "w"; });
  EXPECT_EQ(roles.label_inputs, Names{"t"});
  EXPECT_EQ(roles.predictions, Names{"y"});
}

TEST(EvalRoles, WithoutLabelsThereMayBeNothingToName) {
  Graph graph;
  const ValueType type = ValueType::OfTensor(DataType::kFloat32, {});
  const ValueId x = graph.AddInput("x", type);
  const ValueId w = graph.AddInput("w", type);
  Node node;
  node.op_type = "MatMul";
  node.inputs = {x, w};
  node.outputs = {graph.AddValue("loss")};
  graph.MarkOutput(node.outputs[0]);
  graph.AddNode(node);
  const EvalRoles roles =
      FindEvalRoles(graph, [](std::string_view name) { return name == "w"; });
  EXPECT_TRUE(roles.label_inputs.empty());
  EXPECT_TRUE(roles.predictions.empty());
}

}  // namespace
}  // namespace strop
