// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

constexpr int kCount = 20000;

OpCase Training(double ratio, CaseAttributes attributes = {}) {
  return {.name = "dropout",
          .op = "Dropout",
          .inputs = {In({kCount}, Numbers64(kCount, 2)), In({}, {ratio}),
                     BoolsOf({}, {1})},
          .attributes = std::move(attributes),
          .outputs = "11"};
}

TEST(Dropout, DropsTheShareAndScalesTheRest) {
  OpRun run(Training(0.25), DataType::kFloat32);
  run.RunReference();
  const Numbers64 y = run.OutputValues(0), mask = run.OutputValues(1);
  int kept = 0;
  for (int i = 0; i < kCount; ++i) {
    EXPECT_FLOAT_EQ(static_cast<float>(y[i]),
                    mask[i] != 0 ? 2.0f / 0.75f : 0.0f);
    kept += mask[i] != 0;
  }
  // Four standard deviations of a binomial distribution.
  EXPECT_NEAR(kept, 0.75 * kCount, 4 * std::sqrt(kCount * 0.75 * 0.25));
}

TEST(Dropout, DoesNotDependOnThreadsOrType) {
  ThreadPool pool(4, /*part_nanoseconds=*/0);
  OpRun one(Training(0.5), DataType::kFloat32);
  OpRun four(Training(0.5), DataType::kFloat64);
  four.set_threads(&pool, 4);
  one.RunReference();
  four.RunReference();
  EXPECT_EQ(one.OutputValues(1), four.OutputValues(1));
}

TEST(Dropout, ASeedGivesItsOwnStream) {
  const auto mask = [](const OpCase& op_case) {
    OpRun run(op_case, DataType::kFloat32);
    run.RunReference();
    return run.OutputValues(1);
  };
  const Numbers64 plain = mask(Training(0.5));
  const Numbers64 seven = mask(Training(0.5, {{"seed", int64_t{7}}}));
  EXPECT_NE(plain, seven);
  EXPECT_EQ(seven, mask(Training(0.5, {{"seed", int64_t{7}}})));
  EXPECT_NE(seven, mask(Training(0.5, {{"seed", int64_t{8}}})));
}

// Every fused form draws what Dropout draws.
Numbers64 PlainMask(double ratio) {
  OpRun run(Training(ratio), DataType::kFloat32);
  run.RunReference();
  return run.OutputValues(1);
}

OpCase Fused(const char* op, std::vector<CaseInput> inputs) {
  return {.name = "fused",
          .op = op,
          .inputs = std::move(inputs),
          .domain = "com.microsoft",
          .outputs = "11"};
}

TEST(Dropout, BitsSayWhatStays) {
  const Numbers64 mask = PlainMask(0.25);
  OpRun run(Fused("BitmaskDropout", {In({kCount}, Numbers64(kCount, 2)),
                                     In({}, {0.25}), BoolsOf({}, {1})}),
            DataType::kFloat32);
  run.RunReference();
  const Numbers64 y = run.OutputValues(0), words = run.OutputValues(1);
  for (size_t i = 0; i < kCount; ++i) {
    const auto word = static_cast<uint32_t>(words[i / 32]);
    ASSERT_EQ((word >> (i % 32)) & 1, mask[i] != 0) << i;
    ASSERT_FLOAT_EQ(static_cast<float>(y[i]),
                    mask[i] != 0 ? 2.0f / 0.75f : 0.0f);
  }
}

TEST(Dropout, TheResidualIsNotDropped) {
  const Numbers64 mask = PlainMask(0.5);
  OpRun run(Fused("BiasDropout", {In({kCount}, Numbers64(kCount, 2)),
                                  In({kCount}, Numbers64(kCount, 1)),
                                  In({kCount}, Numbers64(kCount, 10)),
                                  In({}, {0.5}), BoolsOf({}, {1})}),
            DataType::kFloat32);
  run.RunReference();
  EXPECT_EQ(run.OutputValues(1), mask);
  const Numbers64 y = run.OutputValues(0);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(y[i], mask[i] != 0 ? 16 : 10) << i;
  }
}

TEST(Dropout, BehindASoftmax) {
  const Numbers64 mask = PlainMask(0.5);
  OpCase op_case = Fused(
      "BiasSoftmaxDropout",
      {In({kCount, 1}, Numbers64(kCount, 2)), In({1}, {3}), In({}, {0.5})});
  op_case.outputs = "111";
  OpRun run(op_case, DataType::kFloat32);
  run.RunReference();
  EXPECT_EQ(run.OutputValues(1), mask);
  EXPECT_EQ(run.OutputValues(2), Numbers64(kCount, 1));
  const Numbers64 y = run.OutputValues(0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], mask[i] != 0 ? 2 : 0);
}

}  // namespace
}  // namespace strop
