// SPDX-License-Identifier: Apache-2.0
//
// Passes that look at when nodes run: write_early and mark_recompute.
#include <gtest/gtest.h>

#include "passes/net.h"
#include "passes/passes.h"
#include "passes/specialize.h"

namespace strop {
namespace {

// loss = sum(f(x)), and a backward pass that reads f's output to write into
// the input "buffer".
struct Trained {
  explicit Trained(Net& net) : net(net) {
    x = net.Input("x", {4});
    buffer = net.Input("buffer", {4});
    reset = net.Input("reset", {1}, DataType::kBool);
  }
  void Finish(ValueId y) {
    net.graph.MarkOutput(net.Op("ReduceSum", {y}, {"loss"})[0]);
    const ValueId gradient = net.Op("Mul", {y, y}, {"gradient"})[0];
    net.Op("InPlaceAccumulatorV2", {buffer, gradient, reset}, {"done"}, {},
           kMicrosoft);
  }
  Net& net;
  ValueId x, buffer, reset;
};

TEST(MarkRecompute, TheBackwardPassReadsEither) {
  Net net;
  Trained trained(net);
  const ValueId y = net.Op("Sigmoid", {trained.x}, {"y"})[0];
  trained.Finish(y);
  MarkRecompute(net.graph);
  EXPECT_EQ(net.Ops(),
            "Sigmoid ReduceSum Sigmoid Recomputed Mul InPlaceAccumulatorV2");
  const Node& choice = net.Only("Recomputed");
  EXPECT_EQ(choice.inputs[0], y);
  EXPECT_EQ(net.Only("Mul").inputs[0], choice.outputs[0]);
  EXPECT_EQ(net.Only("Mul").inputs[1], choice.outputs[0]);
  EXPECT_EQ(net.Only("ReduceSum").inputs[0], y);
  net.graph.SortNodes();
}

// What is computed again reads what is computed again before it.
TEST(MarkRecompute, ChainsAreComputedAgainInTheirOrder) {
  Net net;
  Trained trained(net);
  const ValueId h = net.Op("Neg", {trained.x}, {"h"})[0];
  trained.Finish(net.Op("Sigmoid", {h}, {"y"})[0]);
  MarkRecompute(net.graph);
  EXPECT_EQ(net.Ops(),
            "Neg Sigmoid ReduceSum Neg Recomputed Sigmoid Recomputed Mul "
            "InPlaceAccumulatorV2");
}

TEST(MarkRecompute, LeavesProductsRandomNodesAndOutputsAlone) {
  for (const bool costly : {false, true}) {
    Net product;
    Trained trained(product);
    trained.Finish(product.Op("MatMul", {trained.x, trained.x}, {"y"})[0]);
    (costly ? MarkCostlyRecompute : MarkRecompute)(product.graph);
    EXPECT_EQ(product.Ops().find("Recomputed") != std::string::npos, costly);
  }
  Net random;
  Trained drawn(random);
  drawn.Finish(random.Op("RandomUniformLike", {drawn.x}, {"y"})[0]);
  const std::string ops = random.Ops();
  MarkCostlyRecompute(random.graph);
  EXPECT_EQ(random.Ops(), ops);

  Net output;
  Trained shown(output);
  const ValueId y = output.Op("Sigmoid", {shown.x}, {"y"})[0];
  output.graph.MarkOutput(y);
  shown.Finish(y);
  MarkRecompute(output.graph);
  EXPECT_EQ(output.Ops(), "Sigmoid ReduceSum Mul InPlaceAccumulatorV2");
}

// Which outputs a node names may change what it means.
TEST(MarkRecompute, LeavesNodesOfSeveralOutputsAlone) {
  Net net;
  Trained trained(net);
  trained.Finish(net.Op("Split", {trained.x}, {"y", "z"})[0]);
  MarkCostlyRecompute(net.graph);
  EXPECT_EQ(net.Ops(), "Split ReduceSum Mul InPlaceAccumulatorV2");

  Net norm;
  norm.graph.opset_imports[""] = 9;
  Trained normed(norm);
  std::vector<ValueId> inputs = {normed.x};
  for (const char* name : {"scale", "bias", "mean", "variance"})
    inputs.push_back(norm.Input(name, {4}));
  normed.Finish(
      norm.Op("BatchNormalization", inputs, {"y", "m", "v", "sm", "sv"})[0]);
  MarkCostlyRecompute(norm.graph);
  EXPECT_EQ(norm.Ops(),
            "BatchNormalization ReduceSum Mul InPlaceAccumulatorV2");
}

// A plan must not wait for a value for the sake of one that it may keep.
TEST(MarkRecompute, LeavesNodesAloneThatNeedAValueOfTheStep) {
  Net net;
  Trained trained(net);
  const ValueId shape = net.Op("Shape", {trained.x}, {"shape"})[0];
  trained.Finish(net.Op("Expand", {trained.x, shape}, {"y"})[0]);
  MarkCostlyRecompute(net.graph);
  EXPECT_EQ(net.Ops(), "Shape Expand ReduceSum Mul InPlaceAccumulatorV2");
}

// The buffer holds something else by then.
TEST(MarkRecompute, NothingReadsAgainWhatIsWritten) {
  Net net;
  Trained trained(net);
  trained.Finish(net.Op("Neg", {trained.buffer}, {"y"})[0]);
  MarkCostlyRecompute(net.graph);
  EXPECT_EQ(net.Ops(), "Neg ReduceSum Mul InPlaceAccumulatorV2");
}

TEST(MarkRecompute, DropoutAndNormsUseWhatTheySaved) {
  Net net;
  Trained trained(net);
  const ValueId ratio = net.Scalar("ratio", 0.5f);
  const ValueId training = net.Input("training", {}, DataType::kBool);
  const ValueId dropped =
      net.Op("Dropout", {trained.x, ratio, training}, {"dropped", "mask"})[0];
  trained.Finish(dropped);
  MarkRecompute(net.graph);
  const Node& again = net.Only("DropoutGrad");
  EXPECT_EQ(again.inputs[0], trained.x);
  EXPECT_EQ(again.inputs[1], net.graph.Find("mask"));

  Net norm;
  Trained normed(norm);
  std::vector<ValueId> inputs = {normed.x};
  for (const char* name : {"scale", "bias", "mean", "variance"})
    inputs.push_back(norm.Input(name, {4}));
  normed.Finish(
      norm.Op("BatchNormInternal", inputs,
              {"y", "new_mean", "new_variance", "saved_mean", "saved_inverse"},
              {}, kMicrosoft)[0]);
  MarkRecompute(norm.graph);
  const Node& apply = norm.Only("BatchNormApply");
  EXPECT_EQ(apply.inputs[3], norm.graph.Find("saved_mean"));
  EXPECT_EQ(apply.inputs[4], norm.graph.Find("saved_inverse"));
  EXPECT_EQ(apply.outputs.size(), 1u);
}

TEST(WriteEarly, WritesRunBehindWhatTheyWaitFor) {
  Net net;
  const ValueId buffer = net.Input("buffer", {4});
  const ValueId reset = net.Input("reset", {1}, DataType::kBool);
  ValueId dy = net.Op("Abs", {net.Input("x", {4})}, {"d0"})[0];
  const ValueId first = dy;
  dy = net.Op("Neg", {dy}, {"d1"})[0];
  net.graph.MarkOutput(net.Op("Exp", {dy}, {"d2"})[0]);
  const ValueId dw = net.Op("Mul", {first, first}, {"dw"})[0];
  net.Op("InPlaceAccumulatorV2", {buffer, dw, reset}, {"done"}, {}, kMicrosoft);
  WriteEarly(net.graph);
  EXPECT_EQ(net.Ops(), "Abs Mul InPlaceAccumulatorV2 Neg Exp");
  net.graph.SortNodes();
}

TEST(WriteEarly, AWriteStaysBehindOtherReaders) {
  Net net;
  const ValueId target = net.Input("target", {4});
  const ValueId y = net.Op("Abs", {net.Input("x", {4})}, {"y"})[0];
  net.graph.MarkOutput(net.Op("Add", {y, target}, {"z"})[0]);
  net.Op("Assign", {target, y}, {}, {}, kInternal);
  WriteEarly(net.graph);
  EXPECT_EQ(net.Ops(), "Abs Add Assign");
}

TEST(WriteEarly, AWriteThatWaitsForNothingStays) {
  Net net;
  const ValueId x = net.Input("x", {4});
  net.graph.MarkOutput(net.Op("Abs", {x}, {"y"})[0]);
  net.Op("Assign", {net.Input("target", {4}), x}, {}, {}, kInternal);
  WriteEarly(net.graph);
  EXPECT_EQ(net.Ops(), "Abs Assign");
}

}  // namespace
}  // namespace strop
