// SPDX-License-Identifier: Apache-2.0
//
// Gradients through If, Loop and Scan, of what goes round, what is scanned
// and what is captured, against differences of the loss.
#include <gtest/gtest.h>

#include "artifacts/body.h"
#include "artifacts/model_check.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kOpset = 13;

void AddLoss(ModelBuilder& m, const std::string& y) {
  m.Op("Mul", {y, y}, "squares");
  m.Op("ReduceSum", {"squares"}, "loss", {{"keepdims", int64_t{0}}});
  m.Output("loss");
}

PreparedModel Prepare(const ModelBuilder& m) {
  return PreparedModel(m, {.optimizer = OptimizerKind::kNone});
}

TEST(ControlFlowGradients, BothBranchesOfIf) {
  ModelBuilder m(kOpset);
  m.Input("c", {}, DataType::kBool);
  m.Input("x", {2, 3});
  m.Parameter("w", {3});
  m.Parameter("v", {3});
  Body then_body(kOpset), else_body(kOpset);
  then_body.Capture("x");
  then_body.Capture("w");
  then_body.Op("Mul", {"x", "w"}, "then_product");
  then_body.Op("Tanh", {"then_product"}, "then_y");
  then_body.Output("then_y");
  else_body.Capture("x");
  else_body.Capture("v");
  else_body.Capture("w");
  else_body.Op("Add", {"x", "v"}, "else_sum");
  else_body.Op("Mul", {"else_sum", "w"}, "else_product");
  else_body.Op("Exp", {"else_product"}, "else_y");
  else_body.Output("else_y");
  m.Op("If", {"c"}, "y",
       {{"then_branch", then_body.Get()}, {"else_branch", else_body.Get()}});
  AddLoss(m, "y");
  PreparedModel prepared = Prepare(m);
  for (const double c : {1.0, 0.0}) {
    EXPECT_EQ(
        CompareGradients(prepared, {{"c", {{}, {c}}}, {"x", Spread({2, 3})}}),
        "")
        << "condition " << c;
  }
}

// What broadcasts in one branch does not in the other.
TEST(ControlFlowGradients, BranchesOfIfMayDifferInShape) {
  ModelBuilder m(kOpset);
  m.Input("c", {}, DataType::kBool);
  m.Input("x", {2, 3});
  m.Parameter("w", {3, 3});
  m.Parameter("b", {2, 3});
  m.Op("MatMul", {"x", "w"}, "h");
  Body then_body(kOpset), else_body(kOpset);
  then_body.Capture("h");
  then_body.Op("Tanh", {"h"}, "then_y");
  then_body.Output("then_y");
  else_body.Capture("h");
  else_body.Op("ReduceMean", {"h"}, "else_y");
  else_body.Output("else_y");
  m.Op("If", {"c"}, "z",
       {{"then_branch", then_body.Get()}, {"else_branch", else_body.Get()}});
  m.Op("Mul", {"z", "b"}, "y");
  AddLoss(m, "y");
  PreparedModel prepared = Prepare(m);
  for (const double c : {1.0, 0.0}) {
    EXPECT_EQ(
        CompareGradients(prepared, {{"c", {{}, {c}}}, {"x", Spread({2, 3})}}),
        "")
        << "condition " << c;
  }
}

TEST(ControlFlowGradients, RandomNumbersInsideAreRefused) {
  ModelBuilder m(kOpset);
  m.Input("c", {}, DataType::kBool);
  m.Parameter("w", {3});
  Body then_body(kOpset), else_body(kOpset);
  then_body.Capture("w");
  then_body.Op("RandomUniformLike", {"w"}, "noise");
  then_body.Op("Mul", {"w", "noise"}, "then_y");
  then_body.Output("then_y");
  else_body.Capture("w");
  else_body.Op("Exp", {"w"}, "else_y");
  else_body.Output("else_y");
  m.Op("If", {"c"}, "y",
       {{"then_branch", then_body.Get()}, {"else_branch", else_body.Get()}});
  AddLoss(m, "y");
  try {
    Prepare(m);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("draws random numbers"),
              std::string_view::npos)
        << error.what();
  }
}

// PyTorch's loops run up to the largest number, until their condition ends
// them.
TEST(ControlFlowGradients, LoopThatItsConditionEnds) {
  ModelBuilder m(kOpset);
  m.Input("x", {2, 3});
  m.Parameter("w", {3, 3});
  m.Constant("most", {}, {9.2e18}, DataType::kInt64);
  m.Constant("true", {}, {1}, DataType::kBool);
  m.Constant("two", {}, {2}, DataType::kInt64);
  Body body(kOpset);
  body.Input("i", DataType::kInt64, {});
  body.Input("go", DataType::kBool, {});
  body.Input("h", DataType::kFloat64, {2, 3});
  body.Capture("w");
  body.Capture("two");
  body.Op("Less", {"i", "two"}, "go_on");
  body.Op("MatMul", {"h", "w"}, "h_next");
  body.Op("Tanh", {"h_next"}, "out");
  body.Output("go_on");
  body.Output("h_next");
  body.Output("out", {2, 3});
  m.Ops("Loop", {"most", "true", "x"}, {"last", "stack"},
        {{"body", body.Get()}});
  m.Op("ReduceSum", {"stack"}, "total", {{"keepdims", int64_t{0}}});
  m.Op("Add", {"last", "total"}, "y");
  AddLoss(m, "y");
  PreparedModel prepared = Prepare(m);
  EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({2, 3})}}), "");
}

// h <- tanh(x_t w + h r), all h stacked.
TEST(ControlFlowGradients, ScanForwardsAndBackwards) {
  for (const int64_t direction : {0, 1}) {
    SCOPED_TRACE(direction);
    ModelBuilder m(kOpset);
    m.Input("x", {4, 2, 3});
    m.Parameter("h0", {2, 3});
    m.Parameter("w", {3, 3});
    m.Parameter("r", {3, 3});
    Body body(kOpset);
    body.Input("h", DataType::kFloat64, {2, 3});
    body.Input("x_t", DataType::kFloat64, {2, 3});
    body.Capture("w");
    body.Capture("r");
    body.Op("MatMul", {"x_t", "w"}, "from_x");
    body.Op("MatMul", {"h", "r"}, "from_h");
    body.Op("Add", {"from_x", "from_h"}, "a");
    body.Op("Tanh", {"a"}, "h_next");
    body.Op("Identity", {"h_next"}, "h_out");
    body.Output("h_next");
    body.Output("h_out");
    m.Parameter("scale", {3});
    m.Op("Mul", {"x", "scale"}, "scaled");
    m.Ops("Scan", {"h0", "scaled"}, {"last", "all"},
          {{"body", body.Get()},
           {"num_scan_inputs", int64_t{1}},
           {"scan_input_directions", Ints{direction}},
           {"scan_output_directions", Ints{direction}}});
    m.Op("Add", {"all", "last"}, "y");
    AddLoss(m, "y");
    PreparedModel prepared = Prepare(m);
    EXPECT_EQ(CompareGradients(prepared, {{"x", Spread({4, 2, 3})}}), "");
  }
}

TEST(ControlFlowGradients, LoopOfAGivenAndOfAnUnknownLength) {
  ModelBuilder m(kOpset);
  m.Input("n", {}, DataType::kInt64);
  m.Input("x", {2, 3});
  m.Parameter("w", {3, 3});
  m.Parameter("b", {3});
  m.Constant("true", {}, {1}, DataType::kBool);
  Body body(kOpset);
  body.Input("i", DataType::kInt64, {});
  body.Input("go", DataType::kBool, {});
  body.Input("h", DataType::kFloat64, {2, 3});
  body.Capture("w");
  body.Capture("b");
  body.Op("Identity", {"go"}, "go_on");
  body.Op("MatMul", {"h", "w"}, "product");
  body.Op("Add", {"product", "b"}, "a");
  body.Op("Tanh", {"a"}, "h_next");
  body.Op("Mul", {"h_next", "h"}, "out");
  body.Output("go_on");
  body.Output("h_next");
  body.Output("out", {2, 3});
  m.Ops("Loop", {"n", "true", "x"}, {"last", "stack"}, {{"body", body.Get()}});
  m.Op("ReduceSum", {"stack"}, "total", {{"keepdims", int64_t{0}}});
  m.Op("Add", {"last", "total"}, "y");
  AddLoss(m, "y");
  PreparedModel prepared = Prepare(m);
  for (const double n : {3.0, 1.0, 0.0}) {
    EXPECT_EQ(
        CompareGradients(prepared, {{"n", {{}, {n}}}, {"x", Spread({2, 3})}}),
        "")
        << n << " iterations";
  }
}

TEST(ControlFlowGradients, ABlockerInsideIsNamed) {
  ModelBuilder m(kOpset);
  m.Input("c", {}, DataType::kBool);
  m.Parameter("w", {3});
  Body then_body(kOpset), else_body(kOpset);
  then_body.Capture("w");
  then_body.Op("NoSuchOp", {"w"}, "then_y");
  then_body.Output("then_y");
  else_body.Capture("w");
  else_body.Op("Exp", {"w"}, "else_y");
  else_body.Output("else_y");
  m.Op("If", {"c"}, "y",
       {{"then_branch", then_body.Get()}, {"else_branch", else_body.Get()}});
  AddLoss(m, "y");
  try {
    Prepare(m);
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string_view text = error.what();
    EXPECT_NE(text.find("[NoSuchOp \"then_y\"] is an unknown op"), text.npos)
        << text;
    EXPECT_NE(text.find("in [If \"y\"]"), text.npos) << text;
  }
}

}  // namespace
}  // namespace strop
