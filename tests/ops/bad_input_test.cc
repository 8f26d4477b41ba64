// SPDX-License-Identifier: Apache-2.0
//
// What an op says of inputs that do not fit, when it is planned or runs.
#include <gtest/gtest.h>

#include "ops/cases/cases.h"

namespace strop {
namespace {

// The text of the Error that the case causes; "" if there is none.
std::string ErrorOf(OpCase op_case, DataType type = DataType::kFloat32) {
  op_case.name = "n";
  try {
    OpRun run(op_case, type);
    run.RunReference();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using IntList = std::vector<int64_t>;

TEST(BadInput, NamesNodeAndShapes) {
  EXPECT_EQ(
      ErrorOf({.op = "MatMul", .inputs = {In({32, 784}), In({768, 128})}}),
      "[MatMul \"n\"] inner dimensions differ: A is (32, 784), B is "
      "(768, 128)");
  EXPECT_EQ(ErrorOf({.op = "Add", .inputs = {In({2, 3}), In({2})}}),
            "[Add \"n\"] shapes (2, 3) and (2) do not broadcast");
  EXPECT_EQ(ErrorOf({.op = "Add", .inputs = {In({2}), Int64s({2}, {1, 2})}}),
            "[Add \"n\"] inputs 0 and 1 have different element types: "
            "float32 and int64");
  EXPECT_EQ(ErrorOf({.op = "Relu", .inputs = {In({2}), In({2})}}),
            "[Relu \"n\"] takes 1 inputs, not 2");
  EXPECT_EQ(ErrorOf({.op = "Add", .inputs = {In({2}), Omitted()}}),
            "[Add \"n\"] input 1 may not be left out");
  EXPECT_EQ(ErrorOf({.op = "Relu", .inputs = {ListOf({In({2})})}}),
            "[Relu \"n\"] input 0 must be a tensor, not a list");
  EXPECT_EQ(ErrorOf({.op = "Flatten",
                     .inputs = {In({2})},
                     .attributes = {{"axis", 1.5f}}}),
            "[Flatten \"n\"] attribute axis must be an integer");
  EXPECT_EQ(ErrorOf({.op = "Exp", .inputs = {In({2})}}, DataType::kBool),
            "[Exp \"n\"] element type bool is not supported");
}

// Each must give an Error that names the node.
TEST(BadInput, IsRefused) {
  const double least = -9223372036854775808.0;
  const OpCase bad[] = {
      {.op = "Gemm", .inputs = {In({2, 3}), In({2, 3})}},
      {.op = "Gemm", .inputs = {In({2, 3}), In({3, 4}), In({5})}},
      {.op = "Gemm", .inputs = {In({3}), In({3, 4})}},
      {.op = "MatMul", .inputs = {In({}), In({2, 2})}},
      {.op = "MatMul", .inputs = {In({2, 1, 2}), In({3, 2, 1})}},
      {.op = "Sum", .inputs = {In({2}), In({3})}},
      {.op = "Where", .inputs = {In({2}), In({2}), In({2})}},
      {.op = "BitShift", .inputs = {Int32s({1}, {1}), Int32s({1}, {1})}},
      {.op = "BitShift",
       .inputs = {Int32s({1}, {1}), Int32s({1}, {1})},
       .attributes = {{"direction", std::string("left")}}},
      {.op = "BitwiseAnd", .inputs = {In({2}), In({2})}},
      {.op = "BitwiseNot", .inputs = {In({2})}},
      {.op = "BitCast",
       .inputs = {In({2})},
       .attributes = {{"to", int64_t{7}}},
       .opset = 26},
      {.op = "BitCast",
       .inputs = {In({2})},
       .attributes = {{"to", int64_t{8}}},
       .opset = 26},
      {.op = "BitCast",
       .inputs = {Typed(DataType::kUint8, {2}, {1, 2})},
       .attributes = {{"to", int64_t{9}}},
       .opset = 26},
      {.op = "Mod", .inputs = {Int32s({2}, {1, 2}), Int32s({2}, {1, 0})}},
      {.op = "PRelu", .inputs = {In({2}), In({2, 2})}},
      {.op = "PRelu", .inputs = {In({2}), In({3})}},
      {.op = "SwiGLU", .inputs = {In({2}), In({1})}, .opset = 28},
      {.op = "EyeLike", .inputs = {In({2})}},
      {.op = "EyeLike",
       .inputs = {In({2, 2})},
       .attributes = {{"dtype", int64_t{8}}}},
      {.op = "CumProd", .inputs = {In({2}), Int64s({}, {1})}, .opset = 26},
      {.op = "CumProd", .inputs = {In({2}), In({})}, .opset = 26},
      {.op = "Hardmax",
       .inputs = {In({2})},
       .attributes = {{"axis", int64_t{-2}}}},
      {.op = "NegativeLogLikelihoodLoss",
       .inputs = {In({2, 3}), Int64s({3}, {0, 0, 0})}},
      {.op = "NegativeLogLikelihoodLoss",
       .inputs = {In({2, 3}), Int64s({2}, {0, 3})}},
      {.op = "NegativeLogLikelihoodLoss",
       .inputs = {In({2, 3}), Int64s({2}, {0, 0})},
       .attributes = {{"reduction", std::string("Mean")}}},
      {.op = "Clip", .inputs = {In({2}), In({2})}},
      {.op = "ReduceSum", .inputs = {In({2}), Int64s({1}, {1})}},
      {.op = "ReduceSum", .inputs = {In({2, 2}), Int64s({2}, {0, -2})}},
      {.op = "ReduceSum", .inputs = {In({2}), In({1}, {0})}},
      {.op = "ReduceSum", .inputs = {In({2}), Int64s({1}, {least})}},
      {.op = "Reshape", .inputs = {In({6}), Int64s({2}, {4, -1})}},
      {.op = "Reshape", .inputs = {In({6}), Int64s({2}, {-1, -1})}},
      {.op = "Reshape", .inputs = {In({6}), Int64s({1}, {-2})}},
      {.op = "Reshape", .inputs = {In({6}), Int64s({2}, {2, 0})}},
      {.op = "Reshape",
       .inputs = {In({6}), Int64s({3}, {4294967296, 4294967296, -1})}},
      {.op = "Reshape", .inputs = {In({0}), Int64s({2}, {0, -1})}},
      {.op = "Flatten",
       .inputs = {In({2})},
       .attributes = {{"axis", int64_t{2}}}},
      {.op = "Squeeze", .inputs = {In({2, 1}), Int64s({1}, {0})}},
      {.op = "Unsqueeze", .inputs = {In({2}), Int64s({2}, {0, 0})}},
      {.op = "Unsqueeze", .inputs = {In({2}), Int64s({1}, {3})}},
      {.op = "Unsqueeze",
       .inputs = {In({2}),
                  Int64s({12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}},
      {.op = "Transpose",
       .inputs = {In({2, 2})},
       .attributes = {{"perm", IntList{0, 0}}}},
      {.op = "Transpose",
       .inputs = {In({2, 2})},
       .attributes = {{"perm", IntList{0}}}},
      {.op = "Expand", .inputs = {In({2}), Int64s({1}, {3})}},
      {.op = "Expand", .inputs = {In({1}), Int64s({1}, {-1})}},
      {.op = "Expand",
       .inputs = {In({1}), Int64s({2}, {4294967296, 4294967296})}},
      {.op = "Tile", .inputs = {In({2}), Int64s({1}, {-1})}},
      {.op = "Tile", .inputs = {In({2}), Int64s({1}, {9e18})}},
      {.op = "Concat", .inputs = {In({2}), In({2})}},
      {.op = "Concat",
       .inputs = {In({2}), In({2})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "Concat",
       .inputs = {In({2, 1}), In({3, 1})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "Split", .inputs = {In({3})}, .outputs = "11"},
      {.op = "Split",
       .inputs = {In({3}), Int64s({2}, {1, 1})},
       .outputs = "11"},
      {.op = "Split",
       .inputs = {In({3}), Int64s({2}, {-1, 4})},
       .outputs = "11"},
      {.op = "ConstantOfShape", .inputs = {Int64s({1}, {-1})}},
      {.op = "Constant", .inputs = {}},
      {.op = "Cast", .inputs = {In({1})}, .attributes = {{"to", int64_t{8}}}},
      {.op = "Cast", .inputs = {In({1})}},
      {.op = "Pad", .inputs = {In({2}), Int64s({2}, {-2, -1})}},
      {.op = "Pad", .inputs = {In({2}), Int64s({1}, {1})}},
      {.op = "Pad", .inputs = {In({2}), Int64s({2}, {9e18, 9e18})}},
      {.op = "Pad",
       .inputs = {In({1}), Int64s({2}, {1, 0})},
       .attributes = {{"mode", std::string("reflect")}}},
      {.op = "Trilu", .inputs = {In({2})}},
      {.op = "Gather", .inputs = {In({2}), Int64s({1}, {2})}},
      {.op = "Gather", .inputs = {In({2}), Int64s({1}, {-3})}},
      {.op = "Gather", .inputs = {In({2}), Int64s({1}, {least})}},
      {.op = "Gather", .inputs = {In({2}), In({1})}},
      {.op = "GatherGrad",
       .inputs = {Int64s({1}, {2}), Int64s({1}, {2}), In({1})},
       .domain = kMs},
      {.op = "GatherGrad",
       .inputs = {Int64s({1}, {2}), Int64s({1}, {1}), In({2})},
       .domain = kMs},
      {.op = "GatherElements", .inputs = {In({2, 2}), Int64s({1}, {0})}},
      {.op = "GatherElements", .inputs = {In({2}), Int64s({1}, {2})}},
      {.op = "GatherND", .inputs = {In({2}), Int64s({2}, {0, 0})}},
      {.op = "GatherND", .inputs = {In({2}), Int64s({1}, {2})}},
      {.op = "Slice",
       .inputs = {In({2}), Int64s({1}, {0}), Int64s({1}, {1}), Int64s({1}, {0}),
                  Int64s({1}, {0})}},
      {.op = "Slice",
       .inputs = {In({2}), Int64s({2}, {0, 0}), Int64s({1}, {1})}},
      {.op = "SliceGrad",
       .inputs = {In({3}), Int64s({1}, {4}), Int64s({1}, {0}),
                  Int64s({1}, {2})},
       .domain = kMs},
      {.op = "ScatterElements", .inputs = {In({2}), Int64s({1}, {2}), In({1})}},
      {.op = "ScatterElements", .inputs = {In({2}), Int64s({1}, {0}), In({2})}},
      {.op = "ScatterND",
       .inputs = {In({2}), Int64s({1, 1}, {0}), In({1})},
       .attributes = {{"reduction", std::string("mean")}}},
      {.op = "ScatterND", .inputs = {In({2}), Int64s({1, 1}, {2}), In({1})}},
      {.op = "TopK", .inputs = {In({2}), Int64s({1}, {3})}},
      {.op = "TopK", .inputs = {In({2}), Int64s({1}, {-1})}},
      {.op = "ArgMax",
       .inputs = {In({2, 0})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "Range", .inputs = {In({}, {0}), In({}, {1}), In({}, {0})}},
      {.op = "Range", .inputs = {In({}, {0}), In({}, {kInf}), In({}, {1})}},
      {.op = "OneHot", .inputs = {Int64s({1}, {0}), Int64s({}, {0}), In({2})}},
      {.op = "CumSum", .inputs = {In({2}), Int64s({}, {1})}},
      {.op = "Conv", .inputs = {In({1, 2, 4}), In({1, 3, 2})}},
      {.op = "Conv", .inputs = {In({1, 2, 4}), In({1, 2, 5})}},
      {.op = "Conv", .inputs = {In({1, 2, 4}), In({1, 2, 0})}},
      {.op = "Conv", .inputs = {In({1, 2, 4}), In({1, 2, 2, 2})}},
      {.op = "Conv", .inputs = {In({1, 2}), In({1, 2})}},
      {.op = "Conv",
       .inputs = {In({1, 2, 4}), In({1, 2, 2})},
       .attributes = {{"strides", IntList{0}}}},
      {.op = "Conv",
       .inputs = {In({1, 2, 4}), In({1, 2, 2})},
       .attributes = {{"group", int64_t{0}}}},
      {.op = "Conv",
       .inputs = {In({1, 2, 4}), In({1, 2, 2})},
       .attributes = {{"pads", IntList{-1, 0}}}},
      {.op = "Conv",
       .inputs = {In({1, 2, 4}), In({1, 2, 2})},
       .attributes = {{"dilations", IntList{int64_t{1} << 62}}}},
      {.op = "Conv",
       .inputs = {In({1, 2, 4}), In({1, 2, 2})},
       .attributes = {{"auto_pad", std::string("SAME")}}},
      {.op = "MaxPool", .inputs = {In({1, 1, 4})}},
      {.op = "MaxPool",
       .inputs = {In({1, 1, 4})},
       .attributes = {{"kernel_shape", IntList{2}}, {"pads", IntList{2, 2}}}},
      {.op = "MaxPoolGrad", .inputs = {In({1, 1, 1}), Int64s({1, 1, 1}, {0})}},
      {.op = "AveragePoolGrad", .inputs = {In({1, 1, 1})}},
      {.op = "MaxPoolGrad",
       .inputs = {In({1, 1, 1}), Int64s({1, 1, 1}, {4}), In({1, 1, 4})},
       .domain = kFused,
       .opset = 1},
      {.op = "Softmax",
       .inputs = {In({2})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "BatchNormalization",
       .inputs = {In({2, 3}), In({2}), In({3}), In({3}), In({3})}},
      {.op = "BatchNormalization",
       .inputs = {In({0, 1}), In({1}), In({1}), In({1}), In({1})},
       .attributes = {{"training_mode", int64_t{1}}}},
      {.op = "LayerNormalization", .inputs = {In({2, 3}), In({2})}},
      {.op = "LayerNormalization", .inputs = {In({}), In({1})}},
      {.op = "Dropout", .inputs = {In({2}), In({}, {1}), BoolsOf({}, {1})}},
      {.op = "Dropout", .inputs = {In({2}), In({}, {kNan}), BoolsOf({}, {1})}},
      {.op = "Dropout", .inputs = {In({2}), In({2}, {0.1, 0.1})}},
      {.op = "SoftmaxCrossEntropyLoss",
       .inputs = {In({2, 3}), Int64s({3}, {0, 0, 0})}},
      {.op = "SoftmaxCrossEntropyLoss",
       .inputs = {In({2, 3}), In({2}, {0, 0})}},
      {.op = "SoftmaxCrossEntropyLoss",
       .inputs = {In({2, 3}), Int64s({2}, {0, 0}), In({2})}},
      {.op = "SoftmaxCrossEntropyLoss",
       .inputs = {In({2, 3}), Int64s({2}, {0, 0})},
       .attributes = {{"reduction", std::string("median")}}},
      {.op = "Scale",
       .inputs = {In({2}), In({}, {0})},
       .attributes = {{"scale_down", int64_t{1}}},
       .domain = kMs},
      {.op = "BroadcastGradientArgs",
       .inputs = {Int64s({1}, {2}), Int64s({1}, {3})},
       .domain = kMs,
       .outputs = "11"},
      {.op = "InPlaceAccumulatorV2",
       .inputs = {In({2}), In({1, 2})},
       .domain = kMs},
      {.op = "SGDOptimizerV2",
       .inputs = {In({1}), ListOf({In({2})}), ListOf({In({3})})},
       .domain = kMs},
      {.op = "SGDOptimizerV2",
       .inputs = {In({1}), In({2}), In({2})},
       .domain = kMs},
      {.op = "InplaceClipGradNorm",
       .inputs = {ListOf({In({2})})},
       .attributes = {{"norm_type", std::string("inf")}},
       .domain = kMs},
      {.op = "Gemm",
       .inputs = {In({2, 2}), In({2, 2})},
       .attributes = {{"activation", std::string("Sine")}},
       .domain = kFused,
       .opset = 1},
  };
  for (size_t i = 0; i < std::size(bad); ++i) {
    const std::string text = ErrorOf(bad[i]);
    EXPECT_TRUE(text.starts_with("[" + bad[i].op + " \"n\"] "))
        << "number " << i << ", " << bad[i].op << ": " << text;
  }
}

TEST(BadInput, LabelsAreCheckedBeforeAnythingIsWritten) {
  for (const double label : {3.0, -1.0, 9e18}) {
    OpCase op_case = {.name = "n",
                      .op = "SoftmaxCrossEntropyLoss",
                      .inputs = {In({2, 3}), Int64s({2}, {0, label})},
                      .outputs = "11"};
    OpRun run(op_case, DataType::kFloat32);
    EXPECT_THROW(run.RunReference(), Error) << label;
    EXPECT_TRUE(std::isnan(run.OutputValues(1)[0])) << label;
  }
}

TEST(BadInput, IntegersAreNotDividedByZero) {
  EXPECT_EQ(ErrorOf({.op = "Div", .inputs = {In({2}, {1, 2}), In({2}, {1, 0})}},
                    DataType::kInt64),
            "[Div \"n\"] division of integers by zero");
  // The lowest number over -1 wraps around.
  OpCase lowest = {.name = "n",
                   .op = "Div",
                   .inputs = {In({1}, {-2147483648.0}), In({1}, {-1})}};
  OpRun run(lowest, DataType::kInt32);
  run.RunReference();
  EXPECT_EQ(run.OutputValues(0), Numbers64{-2147483648.0});
}

TEST(BadInput, AStepBeforeTheFirstIsRefused) {
  EXPECT_EQ(ErrorOf({.op = "AdamWOptimizer",
                     .inputs = {In({1}, {0.1}), Int64s({1}, {0}),
                                ListOf({In({1})}), ListOf({In({1})}),
                                ListOf({In({1})}), ListOf({In({1})})},
                     .domain = kMs}),
            "[AdamWOptimizer \"n\"] the step must be at least 1, it is 0");
}

}  // namespace
}  // namespace strop
