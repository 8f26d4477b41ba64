// SPDX-License-Identifier: Apache-2.0
//
// Where ONNX Runtime cannot run a training model because its opset lacks an
// op, the report says so.
#include <gtest/gtest.h>

#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

ModelBuilder ModelAt(int64_t opset) {
  ModelBuilder m(opset);
  m.Input("x", {-1, 1, 6, 6});
  m.Parameter("w", {2, 1, 3, 3});
  m.Op("Conv", {"x", "w"}, "h");
  m.Op("MaxPool", {"h"}, "p", {{"kernel_shape", Ints{2, 2}}});
  m.Op("Abs", {"p"}, "y");
  m.Output("y");
  return m;
}

std::vector<std::string> NotesAt(int64_t opset) {
  return PreparedModel(ModelAt(opset),
                       {.losses = {{.kind = LossKind::kMeanSquaredError}},
                        .optimizer = OptimizerKind::kNone})
      .report()
      .notes;
}

TEST(NewerOps, AreToldWithTheOpsetThatHasThem) {
  const std::string note = LineWith(
      NotesAt(7), {"opset 7 does not have", "runs in Strop only",
                   "MaxPool with Indices", "Sign", "opset 9 (--opset)"});
  EXPECT_NE(note, "") << testing::PrintToString(NotesAt(7));
  EXPECT_EQ(LineWith({LineWith(NotesAt(8), {"does not have"})}, {"MaxPool"}),
            "");
}

TEST(NewerOps, CheckTellsOfThemToo) {
  EXPECT_NE(LineWith(CheckModel(ModelAt(7)).strop_only,
                     {"opset 7 does not have", "MaxPool with Indices"}),
            "");
}

TEST(NewerOps, AreNoneInANewOpset) {
  EXPECT_TRUE(CheckModel(ModelAt(13)).strop_only.empty());
  EXPECT_EQ(LineWith(NotesAt(13), {"does not have"}), "");
}

// Where ONNX Runtime has the op and cannot do what is asked of it.
TEST(StropOnly, SlicesThatGoBackwardsAndWideParameters) {
  for (const double step : {-1.0, 1.0}) {
    ModelBuilder m(13);
    m.Input("x", {-1, 3});
    m.Parameter("w", {3, 4});
    m.Op("MatMul", {"x", "w"}, "h");
    m.Constant("first", {1}, {step < 0 ? 3.0 : 0.0}, DataType::kInt64);
    m.Constant("last", {1}, {step < 0 ? -9.0 : 9.0}, DataType::kInt64);
    m.Constant("axis", {1}, {1}, DataType::kInt64);
    m.Constant("step", {1}, {step}, DataType::kInt64);
    m.Op("Slice", {"h", "first", "last", "axis", "step"}, "y");
    m.Output("y");
    const std::vector<std::string> lines = CheckModel(m).strop_only;
    EXPECT_EQ(LineWith(lines, {"SliceGrad", "negative step"}).empty(),
              step > 0);
    const std::vector<std::string> notes =
        PreparedModel(m, {.losses = {{.kind = LossKind::kL1}},
                          .optimizer = OptimizerKind::kNone})
            .report()
            .notes;
    EXPECT_NE(LineWith(notes, {"float64 parameters", "Strop only", ": w"}), "");
  }
}

}  // namespace
}  // namespace strop
