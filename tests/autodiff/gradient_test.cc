// SPDX-License-Identifier: Apache-2.0
//
// Every gradient rule, over the cases of its op.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "autodiff/gradient_check.h"
#include "ops/registry.h"
#include "strop/error.h"

namespace strop {
namespace {

std::vector<OpCase> CasesWithRules() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    const bool has_doubles =
        std::ranges::find(op_case.types, DataType::kFloat64) !=
        op_case.types.end();
    if (op != nullptr && op->gradient != nullptr && has_doubles)
      cases.push_back(op_case);
  }
  return cases;
}

void ExpectGradient(const OpCase& op_case, KnownShapes shapes) {
  SCOPED_TRACE(op_case.name.empty() ? op_case.op : op_case.name);
  try {
    EXPECT_EQ(CheckGradient(op_case, shapes).failure, "");
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

TEST(Gradients, AgreeWithDifferences) {
  for (const OpCase& op_case : CasesWithRules())
    ExpectGradient(op_case, KnownShapes::kAll);
}

TEST(Gradients, AgreeWhereShapesAreUnknownBeforehand) {
  for (const OpCase& op_case : CasesWithRules())
    ExpectGradient(op_case, KnownShapes::kNone);
}

// A rule whose cases never give a gradient would pass the tests above.
TEST(Gradients, EachRuleHasACase) {
  std::set<const OpDef*> seen;
  for (const OpCase& op_case : CasesWithRules()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (!seen.contains(op) &&
        CheckGradient(op_case, KnownShapes::kAll).has_gradient)
      seen.insert(op);
  }
  for (const OpDef* op : AllOps()) {
    if (op->gradient == nullptr) continue;
    EXPECT_TRUE(seen.contains(op))
        << op->domain << " " << op->name << "-" << op->since
        << " has a gradient that no case shows";
  }
}

}  // namespace
}  // namespace strop
