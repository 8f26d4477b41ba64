// SPDX-License-Identifier: Apache-2.0
//
// Every op against its cases: expected values, float32 against float64,
// threads against none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/thread_pool.h"
#include "ops/mutation.h"
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

// Every loop is cut, however short.
TEST(OpCases, DoNotDependOnThreads) {
  ThreadPool pool(3, /*part_nanoseconds=*/0);
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

std::vector<std::string> OutputBytes(const OpRun& run, const OpCase& op_case) {
  std::vector<std::string> all;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (!run.has_output(i)) continue;
    const auto bytes = run.output(i).bytes();
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

// A kernel writes every element: NaN that stood there before makes no
// difference.
void ExpectNoOldElement(const OpCase& op_case, DataType type,
                        const std::string& what) {
  OpRun run(op_case, type);
  run.RunReference();
  const auto over_nan = OutputBytes(run, op_case);
  run.set_fill(0);
  run.RunReference();
  EXPECT_EQ(OutputBytes(run, op_case), over_nan) << what;
}

TEST(OpCases, LeaveNoOldElement) {
  for (const OpCase& op_case : AllOpCases()) {
    for (const DataType type : op_case.types) {
      ExpectNoOldElement(op_case, type, NameOf(op_case, type));
    }
  }
}

std::string TitleOf(const OpDef& op) {
  return fmt::format("{}:{} {}", op.domain, op.name, op.since);
}

// Runs the case, which may be refused with an Error that names the node.
bool RunsOrIsRefused(const OpCase& op_case, const std::string& what) {
  try {
    ExpectNoOldElement(op_case, op_case.types[0], what);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[" + op_case.op + " "))
        << what << ": " << error.what();
    EXPECT_NE(error.code(), ErrorCode::kInternal) << what << error.what();
    return false;
  }
}

bool HasEmptyInput(const OpCase& op_case) {
  return std::any_of(
      op_case.inputs.begin(), op_case.inputs.end(), [](const CaseInput& input) {
        return !input.omitted && input.shape.element_count() == 0;
      });
}

// Ops of whose cases some hold sizes that several inputs, attributes or values
// tell, or that may not be 0 (a window, what is picked, what is repeated).
const std::set<std::string> kTiedSizes = {
    "AffineGrid",
    "ArgMax",
    "ArgMin",
    "Attention",
    "BitmaskDropoutGrad",
    "Compress",
    "ConvGrad",
    "DFT",
    "DeformConv",
    "DeformConvGrad",
    "DequantizeLinear",
    "Expand",
    "FusedConv",
    "GRU",
    "GRUGrad",
    "GRUTraining",
    "GroupQueryAttention",
    "LSTM",
    "LSTMGrad",
    "LSTMTraining",
    "LinearAttention",
    "LpPoolGrad",
    "MultiHeadAttention",
    "Pad",
    "QLinearReduceMean",
    "QuantizeLinear",
    "RNN",
    "RNNGrad",
    "Resize",
    "ResizeGrad",
    "SliceGrad",
    "SoftmaxCrossEntropyLossInternalGrad",
    "SparseSoftmaxCrossEntropy",
    "TopK",
    "View",
};

// Each case runs in a form without elements, of an op with tied sizes one of
// them at least.
TEST(OpCases, RunWithoutElements) {
  std::set<std::string> all, running;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (op == nullptr || op->reference.run == nullptr) continue;
    const std::string title = kTiedSizes.contains(op_case.op)
                                  ? TitleOf(*op)
                                  : TitleOf(*op) + ", " + op_case.name;
    if (HasEmptyInput(op_case)) running.insert(title);
    ForEachEmptied(op_case, *op,
                   [&](const std::string& what, const OpCase& emptied) {
                     all.insert(title);
                     if (RunsOrIsRefused(emptied, op_case.name + ": " + what))
                       running.insert(title);
                   });
  }
  for (const std::string& title : all)
    EXPECT_TRUE(running.contains(title)) << title;
}

// Elementwise ops take tensors of rank 0, the others take or refuse them.
TEST(OpCases, RunOnScalars) {
  std::set<std::string> elementwise, running;
  for (const OpCase& op_case : AllOpCases()) {
    const OpDef* op = FindOp(op_case.domain, op_case.op, op_case.opset);
    if (op == nullptr || op->reference.run == nullptr) continue;
    if (op->cheap || op->keeps_zero) elementwise.insert(TitleOf(*op));
    if (RunsOrIsRefused(WithScalars(op_case), op_case.name)) {
      running.insert(TitleOf(*op));
    }
  }
  EXPECT_GT(elementwise.size(), 50u);
  for (const std::string& op : elementwise) {
    EXPECT_TRUE(running.count(op)) << op;
  }
}

// A dimension beside a 0 is not walked along.
TEST(OpCases, HugeTensorsWithoutElementsTakeNoTime) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const OpCase cases[] = {
      {.op = "LpNormalization",
       .inputs = {In({kHuge, 0})},
       .attributes = {{"axis", int64_t{1}}}},
      {.op = "CumSum", .inputs = {In({kHuge, 0}), Int64s({}, {1})}},
      {.op = "InstanceNormalization",
       .inputs = {In({kHuge, 1, 0}), In({1}), In({1})}},
      {.op = "Attention",
       .inputs = {In({1, 1, 0}), In({1, 1, 0}), In({1, 1, 0})},
       .attributes = {{"q_num_heads", kHuge << 21},
                      {"kv_num_heads", kHuge << 21}}},
  };
  for (const OpCase& op_case : cases) {
    SCOPED_TRACE(op_case.op);
    OpRun run(op_case, DataType::kFloat32);
    run.RunReference();
    EXPECT_EQ(run.output(0).element_count(), 0);
  }
}

}  // namespace
}  // namespace strop
