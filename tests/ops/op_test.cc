// SPDX-License-Identifier: Apache-2.0
//
// Every op against its cases: expected values, float32 against float64,
// threads against none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/thread_pool.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

std::string NameOf(const OpCase& op_case, DataType type) {
  std::string name = op_case.name + "_" + DataTypeName(type);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

void ExpectExpected(const OpRun& run, const OpCase& op_case, DataType type) {
  for (size_t i = 0; i < op_case.expected.size(); ++i) {
    if (!run.has_output(i)) continue;
    if (op_case.expected[i].empty() && run.output(i).element_count() != 0) {
      continue;
    }
    ExpectNear(run.OutputValues(i), op_case.expected[i], op_case.tolerance,
               NameOf(op_case, type) + " output " + std::to_string(i));
  }
  for (size_t i = 0; i < op_case.expected_inputs.size(); ++i) {
    if (op_case.expected_inputs[i].empty()) continue;
    ExpectNear(run.InputValues(i), op_case.expected_inputs[i],
               op_case.tolerance,
               NameOf(op_case, type) + " input " + std::to_string(i));
  }
}

TEST(OpCases, GiveTheExpectedValues) {
  for (const OpCase& op_case : AllOpCases()) {
    for (const DataType type : op_case.types) {
      SCOPED_TRACE(NameOf(op_case, type));
      OpRun run(op_case, type);
      run.RunReference();
      ExpectExpected(run, op_case, type);
      run.RunReference();  // inputs were restored: the same again
      ExpectExpected(run, op_case, type);
    }
  }
}

bool Contains(const std::vector<DataType>& types, DataType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

TEST(OpCases, AgreeInFloat32AndFloat64) {
  for (const OpCase& op_case : AllOpCases()) {
    if (!Contains(op_case.types, DataType::kFloat32) ||
        !Contains(op_case.types, DataType::kFloat64)) {
      continue;
    }
    OpRun narrow(op_case, DataType::kFloat32);
    OpRun wide(op_case, DataType::kFloat64);
    narrow.RunReference();
    wide.RunReference();
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      if (!wide.has_output(i)) continue;
      EXPECT_EQ(narrow.output(i).shape(), wide.output(i).shape());
      ExpectNear(narrow.OutputValues(i), wide.OutputValues(i),
                 op_case.tolerance,
                 op_case.name + " output " + std::to_string(i));
    }
  }
}

TEST(OpCases, DoNotDependOnThreads) {
  ThreadPool pool(3);
  for (const OpCase& op_case : AllOpCases()) {
    const DataType type = op_case.types[0];
    OpRun alone(op_case, type);
    OpRun shared(op_case, type);
    shared.set_threads(&pool, 3);
    alone.RunReference();
    shared.RunReference();
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      if (!alone.has_output(i)) continue;
      ExpectNear(shared.OutputValues(i), alone.OutputValues(i), 0,
                 op_case.name);
    }
  }
}

TEST(OpCases, CoverEveryOp) {
  std::set<const OpDef*> covered;
  for (const OpCase& op_case : AllOpCases()) {
    covered.insert(FindOp(op_case.domain, op_case.op, op_case.opset));
  }
  for (const OpDef* op : AllOps()) {
    if (op->reference.run == nullptr) continue;
    EXPECT_TRUE(covered.count(op)) << op->domain << ":" << op->name << " since "
                                   << op->since << " has no case";
  }
}

TEST(OpCases, HaveTheirOwnNames) {
  std::set<std::string> names;
  for (const OpCase& op_case : AllOpCases()) {
    EXPECT_TRUE(names.insert(op_case.domain + op_case.name).second)
        << op_case.name;
  }
}

bool IsFinite(const Numbers64& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

bool IsFinite(const OpCase& op_case) {
  return std::all_of(op_case.inputs.begin(), op_case.inputs.end(),
                     [](const CaseInput& i) { return IsFinite(i.values); }) &&
         std::all_of(op_case.expected.begin(), op_case.expected.end(),
                     [](const Numbers64& e) { return IsFinite(e); });
}

// A kernel writes every element: the NaN that stood there before is gone.
TEST(OpCases, LeaveNoOldElement) {
  for (const OpCase& op_case : AllOpCases()) {
    if (!IsFinite(op_case)) continue;
    OpRun run(op_case, op_case.types[0]);
    run.RunReference();
    for (size_t i = 0; i < op_case.outputs.size(); ++i) {
      if (run.has_output(i)) {
        EXPECT_TRUE(IsFinite(run.OutputValues(i))) << op_case.name;
      }
    }
  }
}

}  // namespace
}  // namespace strop
