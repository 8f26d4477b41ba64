// SPDX-License-Identifier: Apache-2.0
//
// What a session could not load is told beforehand, wherever it stands.
#include <gtest/gtest.h>

#include "artifacts/body.h"
#include "artifacts/model_check.h"

namespace strop {
namespace {

using Ints = std::vector<int64_t>;

// y = w x, which trains, and another output that a node gives of x.
class Faults : public testing::Test {
 protected:
  Faults() : model_(15) {
    model_.Input("c", {}, DataType::kBool);
    model_.Input("x", {-1, 3});
    model_.Parameter("w", {3});
    model_.Op("Mul", {"x", "w"}, "y");
    model_.Output("y");
  }

  void ExpectFault(const std::vector<std::string>& parts) {
    EXPECT_TRUE(CheckModel(model_).can_train()) << "nobody needs the node";
    model_.Output("other");
    const TrainabilityReport report = CheckModel(model_);
    EXPECT_FALSE(report.can_train());
    ASSERT_EQ(report.blockers.size(), 1u);
    EXPECT_NE(LineWith(report.blockers, parts), "") << report.blockers[0];
    ArtifactOptions options = {
        .losses = {{.kind = LossKind::kMeanSquaredError, .input = "y"}}};
    EXPECT_EQ(ErrorOfPreparing(model_, options), "");
    options.keep_outputs = true;
    const std::string error = ErrorOfPreparing(model_, options);
    EXPECT_NE(LineWith({error}, parts), "") << error;
  }

  ModelBuilder model_;
};

TEST_F(Faults, AnAttributeOfTheWrongKind) {
  model_.Op("Transpose", {"x"}, "other", {{"perm", std::string("ab")}});
  ExpectFault({"[Transpose \"other\"]", "perm must be a list of integers"});
}

TEST_F(Faults, AnAttributeThatIsMissing) {
  model_.Op("Concat", {"x", "x"}, "other");
  ExpectFault({"[Concat \"other\"]", "axis"});
}

TEST_F(Faults, AnAxisThatIsNotThere) {
  model_.Op("Concat", {"x", "x"}, "other", {{"axis", int64_t{7}}});
  ExpectFault({"[Concat \"other\"]", "7"});
}

TEST_F(Faults, TooManyInputs) {
  model_.Op("Relu", {"x", "x"}, "other");
  ExpectFault({"[Relu \"other\"]", "takes 1 inputs, not 2"});
}

TEST_F(Faults, ShapesThatFitInNoSize) {
  model_.Constant("five", {5}, {1, 2, 3, 4, 5});
  model_.Op("Add", {"w", "five"}, "other");
  ExpectFault({"[Add \"other\"]"});
}

// An If "other" whose first branch is a node of two inputs.
void AddIf(ModelBuilder& model, const std::string& op) {
  Body branch(15), other(15);
  branch.Capture("x");
  branch.Op(op, {"x", "x"}, "then_y");
  branch.Output("then_y");
  other.Capture("x");
  other.Op("Tanh", {"x"}, "else_y");
  other.Output("else_y");
  model.Op("If", {"c"}, "other",
           {{"then_branch", branch.Get()}, {"else_branch", other.Get()}});
}

TEST_F(Faults, InsideASubgraph) {
  AddIf(model_, "Sigmoid");
  ExpectFault({"[Sigmoid \"then_y\"]", "not 2", "in [If \"other\"]"});
}

TEST_F(Faults, AnAttributeInsideASubgraph) {
  AddIf(model_, "Concat");
  ExpectFault({"[Concat \"then_y\"]", "axis", "in [If \"other\"]"});
}

TEST(FaultsOfUnknownOps, AreToldOffTheWayToo) {
  ModelBuilder m(15);
  m.Input("x", {-1, 3});
  m.Parameter("w", {3});
  m.Op("Mul", {"x", "w"}, "y");
  m.Op("NoSuchOp", {"x"}, "other");
  m.Output("y");
  m.Output("other");
  EXPECT_NE(LineWith(CheckModel(m).blockers,
                     {"[NoSuchOp \"other\"] is an unknown op"}),
            "");
}

// Whatever the batch is; the sizes that inference tries are in no text.
TEST_F(Faults, ShapesThatFitInNoBatch) {
  model_.Input("wide", {-1, 7});
  model_.Constant("table", {4, 2}, Numbers64(8, 1));
  model_.Op("MatMul", {"wide", "table"}, "other");
  ExpectFault({"[MatMul \"other\"]", "(batch, 7)", "(4, 2)"});
}

// Sizes that the probes of inference happen not to fit are no fault.
void ExpectTrainable(const ModelBuilder& m) {
  const TrainabilityReport report = CheckModel(m);
  EXPECT_TRUE(report.can_train())
      << (report.blockers.empty() ? "" : report.blockers[0]);
}

TEST(NoFaults, WhereSomeSizesFit) {
  ModelBuilder m(15);
  m.Input("x", {-1, -2});
  m.Parameter("w", {5});
  m.Op("Mul", {"x", "w"}, "y");
  m.Output("y");
  ExpectTrainable(m);
}

TEST(NoFaults, WhereOneBatchFits) {
  ModelBuilder m(15);
  m.Input("x", {-1, 3});
  m.Parameter("w", {5, 3});
  m.Op("Add", {"x", "w"}, "y");
  m.Output("y");
  ExpectTrainable(m);
}

TEST(NoFaults, WhereAnImageOfOneSizeFits) {
  ModelBuilder m(15);
  m.Input("x", {-1, 1, -2, -3});
  m.Parameter("w", {30, 2});
  m.Op("Flatten", {"x"}, "flat");
  m.Op("MatMul", {"flat", "w"}, "y");
  m.Output("y");
  ExpectTrainable(m);
}

}  // namespace
}  // namespace strop
