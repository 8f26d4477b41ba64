// SPDX-License-Identifier: Apache-2.0
//
// What users reported of other trainers, as models: gradients are compared
// with differences of the loss in float64, on arenas that held NaN before.
#include <gtest/gtest.h>

#include <cmath>

#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

ArtifactOptions Mse() {
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kMeanSquaredError}};
  return options;
}

ArtifactOptions CrossEntropy() {
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kCrossEntropy}};
  options.optimizer = OptimizerKind::kNone;
  return options;
}

ArtifactOptions WithoutOptimizer(ArtifactOptions options) {
  options.optimizer = OptimizerKind::kNone;
  return options;
}

void ExpectGradients(const ModelBuilder& model, const ArtifactOptions& options,
                     const std::map<std::string, Feed>& feeds) {
  PreparedModel prepared(model, WithoutOptimizer(options));
  EXPECT_EQ(CompareGradients(prepared, feeds), "");
}

TEST(Reports, GemmInAllItsOpsets) {
  for (const int64_t opset : {7, 9, 10, 11, 13, 18}) {
    SCOPED_TRACE(opset);
    ModelBuilder m(opset);
    m.Input("x", {-1, 3});
    m.Parameter("w", {4, 3});
    m.Parameter("b", {4});
    m.Op("Gemm", {"x", "w", "b"}, "y",
         {{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}});
    m.Output("y");
    ExpectGradients(m, Mse(),
                    {{"x", Spread({2, 3})}, {"target", Spread({2, 4}, 5)}});
  }
}

TEST(Reports, GemmWithoutC) {
  for (const int64_t opset : {11, 13, 18}) {
    SCOPED_TRACE(opset);
    ModelBuilder m(opset);
    m.Input("x", {-1, 3});
    m.Parameter("w", {3, 4});
    m.Op("Gemm", {"x", "w"}, "y");
    m.Output("y");
    ExpectGradients(m, Mse(),
                    {{"x", Spread({2, 3})}, {"target", Spread({2, 4}, 5)}});
  }
}

TEST(Reports, MatMulBroadcastsOverBatchesOfAnySize) {
  for (const int64_t opset : {9, 13, 21}) {
    ModelBuilder m(opset);
    m.Input("x", {-1, 2, 3});
    m.Parameter("w", {3, 4});
    m.Parameter("stack", {1, 4, 2});
    m.Parameter("scale", {1, 2, 1});
    m.Op("MatMul", {"x", "w"}, "h");
    m.Op("Mul", {"h", "scale"}, "scaled");
    m.Op("MatMul", {"scaled", "stack"}, "y");
    m.Output("y");
    PreparedModel prepared(m, WithoutOptimizer(Mse()));
    for (const int64_t batch : {4, 1, 5}) {
      SCOPED_TRACE(batch);
      EXPECT_EQ(
          CompareGradients(prepared, {{"x", Spread({batch, 2, 3})},
                                      {"target", Spread({batch, 2, 2}, 5)}}),
          "");
    }
  }
}

TEST(Reports, TwoSymbolsMayBroadcastToEachOther) {
  ModelBuilder m(13);
  m.Input("a", {-1, 3});
  m.Input("b", {-2, 3});
  m.Parameter("w", {3, 3});
  m.Op("MatMul", {"a", "w"}, "left");
  m.Op("MatMul", {"b", "w"}, "right");
  m.Op("Mul", {"left", "right"}, "product");
  m.Op("ReduceSum", {"product"}, "y", {{"keepdims", int64_t{0}}});
  m.Output("y");
  PreparedModel prepared(m, {.optimizer = OptimizerKind::kNone});
  for (const auto& [a, b] :
       {std::pair<int64_t, int64_t>{4, 1}, {1, 4}, {2, 2}}) {
    EXPECT_EQ(CompareGradients(
                  prepared, {{"a", Spread({a, 3})}, {"b", Spread({b, 3}, 2)}}),
              "")
        << a << " and " << b;
  }
}

TEST(Reports, GatherTakesNegativeIndices) {
  ModelBuilder m(13);
  m.Input("i", {-1}, DataType::kInt64);
  m.Parameter("table", {4, 3});
  m.Op("Gather", {"table", "i"}, "y");
  m.Output("y");
  ExpectGradients(
      m, Mse(),
      {{"i", {{5}, {-1, 0, 3, -4, -1}}}, {"target", Spread({5, 3}, 5)}});
}

TEST(Reports, WeightsMayBeTied) {
  ModelBuilder m(13);
  m.Input("i", {-1}, DataType::kInt64);
  m.Parameter("table", {4, 3});
  m.Op("Gather", {"table", "i"}, "embedded");
  m.Op("Tanh", {"embedded"}, "hidden");
  m.Op("Transpose", {"table"}, "head", {{"perm", Ints{1, 0}}});
  m.Op("MatMul", {"hidden", "head"}, "scores");
  m.Output("scores");
  ExpectGradients(m, CrossEntropy(),
                  {{"i", {{3}, {1, 1, 2}}}, {"labels", {{3}, {0, 3, 2}}}});
}

TEST(Reports, WindowsOfMaxPoolMayOverlap) {
  for (const int64_t opset : {8, 12, 22}) {
    ModelBuilder m(opset);
    m.Input("x", {-1, 1, -2, -3});
    m.Parameter("w", {2, 1, 2, 2});
    m.Op("Conv", {"x", "w"}, "h");
    m.Op("MaxPool", {"h"}, "y",
         {{"kernel_shape", Ints{3, 3}},
          {"strides", Ints{2, 2}},
          {"pads", Ints{1, 1, 1, 1}}});
    m.Op("ReduceSum", {"y"}, "loss", {{"keepdims", int64_t{0}}});
    m.Output("loss");
    ExpectGradients(m, {}, {{"x", Spread({2, 1, 7, 6})}});
  }
}

TEST(Reports, AveragePoolPadsAtTheEnd) {
  for (const int64_t opset : {11, 19, 22}) {
    for (const int64_t include : {0, 1}) {
      SCOPED_TRACE(opset);
      ModelBuilder m(opset);
      m.Input("x", {-1, 1, 6, 6});
      m.Parameter("w", {2, 1, 2, 2});
      m.Op("Conv", {"x", "w"}, "h");
      m.Op("AveragePool", {"h"}, "p",
           {{"kernel_shape", Ints{3, 3}},
            {"strides", Ints{2, 2}},
            {"pads", Ints{0, 0, 1, 1}},
            {"count_include_pad", include}});
      m.Op("Mul", {"p", "p"}, "y");
      m.Op("ReduceSum", {"y"}, "loss", {{"keepdims", int64_t{0}}});
      m.Output("loss");
      ExpectGradients(m, {}, {{"x", Spread({2, 1, 6, 6})}});
    }
  }
}

// With ceil_mode the last window may begin in the padding.
TEST(Reports, WindowsThatBeginInThePadding) {
  for (const char* pool : {"MaxPool", "AveragePool"}) {
    SCOPED_TRACE(pool);
    ModelBuilder m(19);
    m.Input("x", {-1, 1, 6});
    m.Parameter("w", {2, 1, 2});
    m.Op("Conv", {"x", "w"}, "h");
    m.Op(pool, {"h"}, "p",
         {{"kernel_shape", Ints{2}},
          {"strides", Ints{3}},
          {"pads", Ints{1, 1}},
          {"ceil_mode", int64_t{1}}});
    m.Op("Mul", {"p", "p"}, "y");
    m.Op("ReduceSum", {"y"}, "loss", {{"keepdims", int64_t{0}}});
    m.Output("loss");
    ExpectGradients(m, {}, {{"x", Spread({2, 1, 6})}});
  }
}

TEST(Reports, ABranchThatIsNotChosenMayBeNaN) {
  ModelBuilder m(13);
  m.Input("x", {-1, 2});
  m.Parameter("w", {2});
  m.Parameter("v", {2});
  m.Constant("zero", {}, {0});
  m.Constant("nan", {1}, {std::nan("")});
  m.Op("Mul", {"x", "w"}, "a");
  m.Op("Mul", {"v", "nan"}, "b");
  m.Op("Greater", {"x", "zero"}, "positive");
  // All x are positive.
  m.Op("Where", {"positive", "a", "b"}, "y");
  m.Op("ReduceSum", {"y"}, "loss", {{"keepdims", int64_t{0}}});
  m.Output("loss");
  PreparedModel prepared(
      m, {.requires_grad = {"w"}, .optimizer = OptimizerKind::kNone});
  const auto outputs = prepared.Train({{"x", {{2, 2}, {1, 2, 3, 4}}}});
  EXPECT_TRUE(std::isfinite(outputs[0][0]));
  EXPECT_EQ(prepared.Gradient("w"), (Numbers64{4, 6}));
}

TEST(Reports, DropoutsBackwardHasTheForwardsMask) {
  ModelBuilder m(13);
  m.Input("x", {-1, 64});
  m.Parameter("w", {64});
  m.Constant("ratio", {}, {0.5}, DataType::kFloat32);
  m.Op("Mul", {"x", "w"}, "h");
  m.Op("Dropout", {"h", "ratio"}, "dropped");
  m.Op("ReduceSum", {"dropped"}, "loss", {{"keepdims", int64_t{0}}});
  m.Output("loss");
  PreparedModel prepared(m, {.additional_output_names = {"dropped"},
                             .optimizer = OptimizerKind::kNone});
  const Feed x = {{1, 64}, Numbers64(64, 1)};
  const auto outputs = prepared.Train({{"x", x}});
  const Numbers64 gradient = prepared.Gradient("w");
  size_t zeros = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(gradient[i], outputs[1][i] == 0 ? 0 : 2) << i;
    zeros += gradient[i] == 0;
  }
  EXPECT_GT(zeros, 16u);
  EXPECT_LT(zeros, 48u);
}

// Below opset 12 ONNX has no op for cross entropy.
constexpr int64_t kOpsetsOfCrossEntropy[] = {11, 13};

ModelBuilder Classifier(int64_t opset) {
  ModelBuilder m(opset);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 4});
  m.Op("MatMul", {"x", "w"}, "scores");
  m.Output("scores");
  return m;
}

class CrossEntropyAt : public testing::TestWithParam<int64_t> {};

INSTANTIATE_TEST_SUITE_P(Opsets, CrossEntropyAt,
                         testing::ValuesIn(kOpsetsOfCrossEntropy));

TEST_P(CrossEntropyAt, WithEveryLabelIgnoredNothingChanges) {
  ArtifactOptions options = CrossEntropy();
  options.losses[0].ignore_index = -100;
  options.optimizer = OptimizerKind::kAdamW;
  PreparedModel prepared(Classifier(GetParam()), options);
  const Numbers64 before = ToNumbers(prepared.state().ParameterValue("w"));
  const auto outputs =
      prepared.Train({{"x", Spread({2, 3})}, {"labels", {{2}, {-100, -100}}}});
  EXPECT_EQ(outputs[0][0], 0);
  EXPECT_EQ(prepared.Gradient("w"), Numbers64(12, 0));
  prepared.optimizer().Step();
  EXPECT_EQ(ToNumbers(prepared.state().ParameterValue("w")), before);
}

TEST_P(CrossEntropyAt, ClassWeightsAndIgnoredLabelsTogether) {
  ArtifactOptions options = CrossEntropy();
  auto weights = std::make_shared<OwnedTensor>(DataType::kFloat64, Shape{4});
  const Numbers64 values = {0.5, 1, 2, 0.25};
  std::ranges::copy(values, weights->view().values<double>().begin());
  options.losses[0].weights = weights;
  options.losses[0].ignore_index = 1;
  ExpectGradients(Classifier(GetParam()), options,
                  {{"x", Spread({4, 3})}, {"labels", {{4}, {0, 1, 3, 2}}}});
}

TEST(Reports, BceIsFiniteForAnyLogit) {
  ModelBuilder m(13);
  m.Input("x", {-1, 1});
  m.Parameter("w", {1});
  m.Op("Mul", {"x", "w"}, "logit");
  m.Output("logit");
  ArtifactOptions options;
  options.losses = {{.kind = LossKind::kBinaryCrossEntropyWithLogits}};
  options.optimizer = OptimizerKind::kNone;
  PreparedModel prepared(m, options);
  const auto outputs = prepared.Train(
      {{"x", {{2, 1}, {1e6, -1e6}}}, {"target", {{2, 1}, {1, 0}}}});
  EXPECT_TRUE(std::isfinite(outputs[0][0]));
  EXPECT_TRUE(std::isfinite(prepared.Gradient("w")[0]));
}

// Its own value of that name would be the target, and the loss mean nothing.
TEST(Reports, AValueCalledLikeTheTargetIsNotTakenForIt) {
  ModelBuilder m(13);
  m.Input("target", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Op("MatMul", {"target", "w"}, "y");
  m.Output("y");
  EXPECT_THROW(PreparedModel(m, WithoutOptimizer(Mse())), Error);
  ArtifactOptions named = WithoutOptimizer(Mse());
  named.losses[0].target = "goal";
  ExpectGradients(m, named,
                  {{"target", Spread({2, 3})}, {"goal", Spread({2, 3}, 4)}});
}

// An export of GroupNorm gives InstanceNormalization ones and zeros.
TEST(Reports, OnesAndZerosInConstantNodesAreNotTrained) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3, 4});
  const auto constant = [&](const std::string& name, const Numbers64& values) {
    const OwnedTensor tensor(DataType::kFloat64, Shape{3});
    FromNumbers(values, tensor.view());
    m.Op("Constant", {}, name,
         {{"value", TensorData::Copy("", tensor.view())}});
  };
  constant("ones", {1, 1, 1});
  constant("zeros", {0, 0, 0});
  m.Op("InstanceNormalization", {"x", "ones", "zeros"}, "normal");
  m.Parameter("w", {3, 1});
  m.Op("Mul", {"normal", "w"}, "y");
  m.Output("y");
  PreparedModel prepared(m, WithoutOptimizer(Mse()));
  EXPECT_EQ(prepared.state().ParameterNames(), std::vector<std::string>({"w"}));
}

TEST(Reports, NumbersOfFormulasAreNotTrained) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3, 3});
  m.Constant("exponent", {1}, {2});
  m.Op("MatMul", {"x", "w"}, "h");
  m.Op("Pow", {"h", "exponent"}, "y");
  m.Output("y");
  PreparedModel prepared(m, WithoutOptimizer(Mse()));
  EXPECT_EQ(prepared.state().ParameterNames(), (std::vector<std::string>{"w"}));
}

// A weight that the exporter put behind other nodes.
TEST(Reports, WeightsAreFoundBehindOtherNodes) {
  ModelBuilder m(13);
  m.Input("x", {-1, 3});
  m.Parameter("w", {4, 3});
  m.Parameter("v", {4});
  m.Op("Transpose", {"w"}, "w_t", {{"perm", Ints{1, 0}}});
  m.Op("Identity", {"v"}, "same");
  m.Op("MatMul", {"x", "w_t"}, "h");
  m.Op("Add", {"h", "same"}, "y");
  m.Output("y");
  ExpectGradients(m, Mse(),
                  {{"x", Spread({2, 3})}, {"target", Spread({2, 4}, 5)}});
}

TEST(Reports, ManyOpsetsGiveTheSameGradients) {
  for (const int64_t opset : {9, 13, 17, 21}) {
    SCOPED_TRACE(opset);
    ModelBuilder m(opset);
    m.Input("x", {-1, 2, 3});
    m.Parameter("w", {3});
    if (opset < 13) {
      m.Op("ReduceSum", {"x"}, "sums",
           {{"axes", Ints{1}}, {"keepdims", int64_t{0}}});
      m.Op("Unsqueeze", {"sums"}, "wide", {{"axes", Ints{1}}});
    } else {
      m.Constant("axes", {1}, {1}, DataType::kInt64);
      m.Op("ReduceSum", {"x", "axes"}, "sums", {{"keepdims", int64_t{0}}});
      m.Op("Unsqueeze", {"sums", "axes"}, "wide");
    }
    m.Op("Mul", {"wide", "w"}, "scaled");
    m.Op("Softmax", {"scaled"}, "p", {{"axis", int64_t{2}}});
    m.Op("Exp", {"p"}, "y");
    m.Output("y");
    ExpectGradients(
        m, Mse(), {{"x", Spread({2, 2, 3})}, {"target", Spread({2, 1, 3}, 4)}});
  }
}

}  // namespace
}  // namespace strop
