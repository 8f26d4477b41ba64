// SPDX-License-Identifier: Apache-2.0
//
// The CPU provider against the reference kernels, over the cases of all ops.
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

// What a run has left in outputs and inputs.
std::vector<Numbers64> Results(const OpRun& run, const OpCase& op_case) {
  std::vector<Numbers64> results;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (run.has_output(i)) results.push_back(run.OutputValues(i));
  }
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (!op_case.inputs[i].omitted) results.push_back(run.InputValues(i));
  }
  return results;
}

// How many cases the provider ran with that many threads; every loop is cut.
int CompareAll(int num_threads) {
  const auto provider = CpuExecutionProvider();
  ThreadPool pool(num_threads, /*part_nanoseconds=*/0);
  int ran = 0;
  for (const OpCase& op_case : AllOpCases()) {
    for (const DataType type : op_case.types) {
      OpRun expected(op_case, type);
      if (expected.op().reference.run == nullptr) continue;
      expected.RunReference();
      OpRun actual(op_case, type);
      actual.set_threads(&pool, num_threads);
      if (!actual.RunProvider(*provider).empty()) continue;
      ++ran;
      const auto want = Results(expected, op_case);
      const auto have = Results(actual, op_case);
      for (size_t i = 0; i < want.size(); ++i) {
        ExpectNear(have[i], want[i], 1e-5,
                   op_case.name + " result " + std::to_string(i));
      }
    }
  }
  return ran;
}

TEST(CpuProvider, AgreesWithTheReference) { EXPECT_GT(CompareAll(1), 50); }

TEST(CpuProvider, AgreesWithTheReferenceOnThreeThreads) {
  EXPECT_GT(CompareAll(3), 50);
}

}  // namespace
}  // namespace strop
