// SPDX-License-Identifier: Apache-2.0
//
// The CPU provider against the reference kernels, over the cases of all ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

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

// Compares provider and reference, unless one of them has no kernel. Returns
// whether the provider ran.
bool Compare(const OpCase& op_case, DataType type, ThreadPool& pool,
             int num_threads) {
  OpRun expected(op_case, type);
  if (expected.op().reference.run == nullptr) return false;
  expected.RunReference();
  OpRun actual(op_case, type);
  actual.set_threads(&pool, num_threads);
  if (!actual.RunProvider(*CpuExecutionProvider()).empty()) return false;
  const auto want = Results(expected, op_case);
  const auto have = Results(actual, op_case);
  for (size_t i = 0; i < want.size(); ++i) {
    ExpectNear(have[i], want[i], 1e-5,
               op_case.name + " result " + std::to_string(i));
  }
  return true;
}

// How many cases the provider ran with that many threads; every loop is cut.
int CompareAll(int num_threads) {
  ThreadPool pool(num_threads, /*part_nanoseconds=*/0);
  int ran = 0;
  for (const OpCase& op_case : AllOpCases()) {
    for (const DataType type : op_case.types) {
      ran += Compare(op_case, type, pool, num_threads);
    }
  }
  return ran;
}

TEST(CpuProvider, AgreesWithTheReference) { EXPECT_GT(CompareAll(1), 50); }

TEST(CpuProvider, AgreesWithTheReferenceOnThreeThreads) {
  EXPECT_GT(CompareAll(3), 50);
}

// --- Sizes that fill vectors, leave tails and give each thread something.

constexpr int64_t kColumns[] = {1, 7, 16, 33, 64, 130, 517};

void ExpectRuns(const OpCase& op_case) {
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(op_case.name + " " + op_case.inputs[0].shape.ToString() +
                 " on " + std::to_string(threads));
    ThreadPool pool(threads, /*part_nanoseconds=*/0);
    EXPECT_TRUE(Compare(op_case, DataType::kFloat32, pool, threads));
  }
}

TEST(CpuProvider, RowsOfAnyLength) {
  for (const int64_t n : kColumns) {
    const Shape shape = {5, 2, n};
    const CaseInput x = InRange(shape, -6, 6), dy = In(shape);
    const CaseInput row = In({n});
    const auto run =
        [&](std::string op, std::string domain, std::vector<CaseInput> inputs,
            std::string outputs = "1", CaseAttributes attributes = {}) {
          ExpectRuns({.name = op,
                      .op = op,
                      .inputs = std::move(inputs),
                      .attributes = std::move(attributes),
                      .domain = domain,
                      .opset = domain.empty() ? 23 : 1,
                      .outputs = outputs});
        };
    const std::string microsoft(kMicrosoft);
    run("Gelu", "", {x});
    run("Gelu", "", {x}, "1", {{"approximate", std::string("tanh")}});
    run("Gelu", microsoft, {x});
    run("BiasGelu", microsoft, {x, row});
    run("FastGelu", microsoft, {x, row});
    run("GeluGrad", microsoft, {dy, x});
    run("FastGeluGrad", microsoft, {dy, x});
    run("BiasGeluGrad_dX", microsoft, {dy, x, row});
    run("BiasFastGeluGrad_dX", microsoft, {dy, x, row});
    run("Softmax", "", {x});
    run("LogSoftmax", "", {x});
    run("SoftmaxGrad_13", microsoft, {dy, InRange(shape, 0, 1)});
    run("LogSoftmaxGrad_13", microsoft, {dy, x});
    run("SoftmaxGrad", microsoft, {dy, InRange(shape, 0, 0.1)}, "1",
        {{"axis", int64_t{1}}});
    run("LayerNormalization", "", {x, row, row}, "111");
    run("LayerNormalization", "", {x, In({1, 2, n})}, "111",
        {{"axis", int64_t{1}}});
    run("SimplifiedLayerNormalization", "", {x, row}, "11");
    run("RMSNormalization", "", {x, row});
  }
}

TEST(CpuProvider, SumsAnyNumberOfTensors) {
  for (const size_t count : {2, 3, 5}) {
    for (const int64_t n : {1, 37, 5000}) {
      ExpectRuns({.name = "Sum",
                  .op = "Sum",
                  .inputs = std::vector<CaseInput>(count, In({n}))});
    }
  }
}

TEST(CpuProvider, DropoutDropsWhatTheReferenceDrops) {
  for (const int64_t n : {1, 33, 700}) {
    const Shape shape = {3, n};
    const CaseInput x = In(shape), half = In({}, {0.5}), tenth = In({}, {0.1});
    const CaseInput training = BoolsOf({}, {1}), evaluating = BoolsOf({}, {0});
    OpCase op_case = {.op = "Dropout", .inputs = {}, .outputs = "11"};
    for (const CaseInput& ratio : {half, tenth}) {
      for (const CaseInput& mode : {training, evaluating}) {
        op_case.name = op_case.op = "Dropout";
        op_case.domain = "";
        op_case.opset = 13;
        op_case.inputs = {x, ratio, mode};
        ExpectRuns(op_case);
        op_case.name = op_case.op = "BitmaskDropout";
        op_case.domain = std::string(kMicrosoft);
        op_case.opset = 1;
        ExpectRuns(op_case);
        for (const char* op : {"BiasDropout", "BitmaskBiasDropout"}) {
          op_case.name = op_case.op = op;
          op_case.inputs = {x, In({n}), x, ratio, mode};
          ExpectRuns(op_case);
          op_case.inputs[2] = Omitted();
          ExpectRuns(op_case);
        }
      }
    }
    Numbers64 kept;
    for (int64_t i = 0; i < 3 * n; ++i) kept.push_back(i % 3 == 0);
    op_case.outputs = "1";
    op_case.name = op_case.op = "DropoutGrad";
    op_case.inputs = {x, BoolsOf(shape, kept), tenth};
    ExpectRuns(op_case);
    op_case.name = op_case.op = "BitmaskDropoutGrad";
    op_case.inputs[1] =
        Typed(DataType::kUint32, {(3 * n + 31) / 32},
              Numbers64(static_cast<size_t>((3 * n + 31) / 32), 0x9abcdef1));
    ExpectRuns(op_case);
  }
}

// Enough rows for several blocks of sums.
TEST(CpuProvider, LayerNormGradSumsBlocksOfRows) {
  for (const int64_t n : kColumns) {
    for (const int64_t rows : {1, 64, 150}) {
      const CaseInput x = In({rows, n}), scale = In({n});
      const CaseInput mean = In({rows}), inverse = InRange({rows}, 0.5, 2);
      OpCase op_case = {.name = "LayerNormalizationGrad",
                        .op = "LayerNormalizationGrad",
                        .inputs = {x, x, scale, mean, inverse},
                        .domain = std::string(kMicrosoft),
                        .opset = 1};
      for (const char* outputs : {"111", "011"}) {
        op_case.outputs = outputs;
        ExpectRuns(op_case);
      }
      op_case.name = op_case.op = "SimplifiedLayerNormalizationGrad";
      op_case.inputs.erase(op_case.inputs.begin() + 3);
      op_case.outputs = "11";
      ExpectRuns(op_case);
    }
  }
}

TEST(CpuProvider, TransposesInAnyOrder) {
  const Shape shapes[] = {{2, 3, 33, 18}, {1, 70, 4, 5}, {3, 1, 16, 130}};
  for (const Shape& shape : shapes) {
    std::vector<int64_t> perm = {0, 1, 2, 3};
    do {
      ExpectRuns({.name = "Transpose",
                  .op = "Transpose",
                  .inputs = {In(shape)},
                  .attributes = {{"perm", perm}}});
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
  ExpectRuns(
      {.name = "Transpose", .op = "Transpose", .inputs = {In({67, 80})}});
}

TEST(CpuProvider, GatherGradAddsRowsOfAnyLength) {
  for (const int64_t n : kColumns) {
    const std::string microsoft(kMicrosoft);
    ExpectRuns({.name = "GatherGrad",
                .op = "GatherGrad",
                .inputs = {Int64s({3}, {2, 5, static_cast<double>(n)}),
                           Int64s({2, 2}, {4, -1, 0, 4}), In({2, 2, 2, n})},
                .attributes = {{"axis", int64_t{1}}},
                .domain = microsoft,
                .opset = 1});
    for (const double overwrite : {0, 1}) {
      ExpectRuns({.name = "GatherGradAccumulate",
                  .op = "GatherGradAccumulate",
                  .inputs = {Int32s({3}, {1, -3, 1}), In({3, n}), In({5, n}),
                             BoolsOf({1}, {overwrite})},
                  .domain = std::string(kInternal),
                  .opset = 1});
    }
  }
}

// Every order of axes in which rows or columns of the operands and of the
// result lie next to each other.
TEST(CpuProvider, MatMulReadsAndWritesThroughTransposes) {
  std::vector<int64_t> perm = {0, 1, 2, 3};
  do {
    // The tensor whose axes, ordered by perm, have the sizes.
    const auto tensor = [&](std::vector<int64_t> wanted) {
      std::vector<int64_t> dims(4);
      for (size_t i = 0; i < 4; ++i) {
        dims[static_cast<size_t>(perm[i])] = wanted[i];
      }
      return In(Shape(dims));
    };
    OpCase op_case = {.name = "MatMul",
                      .op = "MatMul",
                      .inputs = {},
                      .domain = std::string(kInternal),
                      .opset = 1};
    if (perm[2] == 3 || perm[3] == 3) {
      op_case.inputs = {tensor({2, 3, 17, 40}), In({3, 40, 36})};
      op_case.attributes = {{"permA", perm}};
      ExpectRuns(op_case);
      op_case.inputs = {In({2, 3, 40, 17}), tensor({2, 1, 36, 40})};
      op_case.attributes = {{"permB", perm},
                            {"transA", int64_t{1}},
                            {"transB", int64_t{1}},
                            {"alpha", 0.5f}};
      ExpectRuns(op_case);
    }
    if (perm[3] >= 2) {
      op_case.inputs = {In({2, 3, 17, 40}), In({2, 3, 40, 36})};
      op_case.attributes = {{"permY", perm}};
      ExpectRuns(op_case);
      if (perm[3] == 2) continue;
      op_case.inputs[1] = In({40, 36});
      op_case.inputs.push_back(In({36}));
      ExpectRuns(op_case);
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(CpuProvider, MatMulTakesSoftmaxAlongItsRows) {
  for (const int64_t batch : {1, 2}) {
    OpCase op_case = {
        .name = "MatMul",
        .op = "MatMul",
        .attributes = {{"then", std::string("Softmax")}, {"alpha", 0.25f}},
        .domain = std::string(kInternal),
        .opset = 1};
    const CaseInput a = In({batch, 3, 117, 40}), b = In({3, 40, 136});
    op_case.inputs = {a, b};
    ExpectRuns(op_case);
    for (const Shape& mask : {Shape{136}, Shape{117, 136}, Shape{3, 1, 136},
                              Shape{batch, 1, 1, 136}}) {
      op_case.inputs = {a, b, Omitted(), In(mask)};
      ExpectRuns(op_case);
    }
    op_case.inputs = {a, b, In({136}), InRange({batch, 3, 117, 136}, 0, 1)};
    op_case.attributes[0].second = std::string("SoftmaxGrad");
    ExpectRuns(op_case);
    // One product, cut into tiles for several threads.
    op_case.inputs = {In({300, 90}), In({90, 130}), Omitted(),
                      InRange({300, 130}, 0, 1)};
    ExpectRuns(op_case);
    op_case.attributes[0].second = std::string("Softmax");
    op_case.inputs.resize(2);
    ExpectRuns(op_case);
  }
}

TEST(CpuProvider, NanAndInfinityShowInARow) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string op : {"Softmax", "LogSoftmax", "Gelu"}) {
    for (const double special : {nan, -infinity}) {
      Numbers64 values(40, 1.5);
      values[3] = values[39] = special;
      ExpectRuns({.name = op, .op = op, .inputs = {In({2, 20}, values)}});
    }
  }
}

}  // namespace
}  // namespace strop
