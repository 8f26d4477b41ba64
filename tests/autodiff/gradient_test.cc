// SPDX-License-Identifier: Apache-2.0
//
// Every gradient rule, over the cases of its op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "autodiff/gradient_check.h"
#include "ops/registry.h"
#include "strop/error.h"

namespace strop {
namespace {

// Ops with a gradient that is not that of the function: it passes on what
// rounding would stop.
const std::set<std::string> kStraightThrough = {"FakeQuant"};

// What some rules say they cannot do.
constexpr std::string_view kLimits[] = {"with transBatchA", "with spatial = 0"};

bool IsLimit(std::string_view text) {
  return std::ranges::any_of(kLimits, [&](std::string_view limit) {
    return text.find(limit) != std::string_view::npos;
  });
}

std::vector<OpCase> CasesWithRules() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    const bool has_doubles =
        std::ranges::find(op_case.types, DataType::kFloat64) !=
        op_case.types.end();
    if (op != nullptr && op->gradient != nullptr && has_doubles &&
        !kStraightThrough.contains(op_case.op))
      cases.push_back(op_case);
  }
  return cases;
}

void ExpectGradient(const OpCase& op_case, KnownShapes shapes) {
  SCOPED_TRACE(op_case.name.empty() ? op_case.op : op_case.name);
  try {
    EXPECT_EQ(CheckGradient(op_case, shapes).failure, "");
  } catch (const Error& error) {
    // Some rules are honest about what they cannot do without shapes.
    const bool wants_shapes =
        std::string_view(error.what()).find("must be known") !=
        std::string_view::npos;
    EXPECT_TRUE(IsLimit(error.what()) ||
                (shapes == KnownShapes::kNone && wants_shapes))
        << error.what();
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

// On the kernels that train, which differ from the plain ones.
TEST(Gradients, OfFloat32AreThoseOfFloat64) {
  constexpr double kTolerance = 1e-4;
  for (const OpCase& op_case : CasesWithRules()) {
    if (std::ranges::find(op_case.types, DataType::kFloat32) ==
        op_case.types.end())
      continue;
    SCOPED_TRACE(op_case.name);
    std::vector<Numbers64> expected, actual;
    try {
      expected = GradientsOf(op_case, DataType::kFloat64);
      actual = GradientsOf(op_case, DataType::kFloat32);
    } catch (const Error&) {
      continue;  // another test tells
    }
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].size(), expected[i].size());
      double largest = 0;
      for (const double g : expected[i])
        if (std::isfinite(g)) largest = std::max(largest, std::abs(g));
      for (size_t k = 0; k < expected[i].size(); ++k) {
        if (!std::isfinite(expected[i][k])) continue;
        EXPECT_LE(std::abs(actual[i][k] - expected[i][k]),
                  kTolerance * std::max(largest, 1.0))
            << "input " << i << ", element " << k << ": " << actual[i][k]
            << " for " << expected[i][k];
      }
    }
  }
}

// A rule whose cases never give a gradient would pass the tests above.
TEST(Gradients, EachRuleHasACase) {
  std::set<const OpDef*> seen;
  for (const OpCase& op_case : CasesWithRules()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (seen.contains(op)) continue;
    try {
      if (CheckGradient(op_case, KnownShapes::kAll).has_gradient)
        seen.insert(op);
    } catch (const Error&) {
      // Another test tells.
    }
  }
  for (const OpDef* op : AllOps()) {
    if (op->gradient == nullptr ||
        kStraightThrough.contains(std::string(op->name)))
      continue;
    EXPECT_TRUE(seen.contains(op))
        << op->domain << " " << op->name << "-" << op->since
        << " has a gradient that no case shows";
  }
}

}  // namespace
}  // namespace strop
