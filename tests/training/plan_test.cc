// SPDX-License-Identifier: Apache-2.0
//
// What is decided for a real model: the plans of golden cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "training/golden.h"

namespace strop {
namespace {

using golden::Case;
using golden::TrainingRun;

std::string TrainPlan(const std::string& name, Module::PlanFormat format) {
  const Case golden(name);
  TrainingRun run(golden, "checkpoint", 1);
  return run.module().DescribePlan(
      true, golden.Batch(0, run.module().TrainingInputNames()), format);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Plan, GradientsOfAnMlpGoStraightIntoTheirBuffers) {
  const std::string plan = TrainPlan("mlp_ce_adamw", Module::PlanFormat::kText);
  EXPECT_EQ(Count(plan, "InPlaceAccumulatorV2"), 0u) << plan;
  EXPECT_EQ(Count(plan, " GemmAccumulate "), 2u) << plan;
  EXPECT_EQ(Count(plan, " ReduceSumAccumulate "), 2u) << plan;
  EXPECT_EQ(Count(plan, "Identity"), 0u) << plan;
  // Both activations' Relu joined the Gemm before it.
  EXPECT_EQ(Count(plan, " Relu "), 0u) << plan;
}

TEST(Plan, StateIsWrittenBehindTheLoss) {
  const std::string plan = TrainPlan("mlp_ce_adamw", Module::PlanFormat::kText);
  const size_t writes = plan.find("--- writes state");
  ASSERT_NE(writes, std::string::npos) << plan;
  EXPECT_LT(plan.find("SoftmaxCrossEntropyLoss"), writes) << plan;
  EXPECT_GT(plan.find("GemmAccumulate"), writes) << plan;
}

TEST(Plan, NoStepRunsOnAReferenceKernelInTheMlp) {
  const std::string plan = TrainPlan("mlp_ce_adamw", Module::PlanFormat::kText);
  EXPECT_EQ(Count(plan, "[reference]"), 0u) << plan;
}

TEST(Plan, PeakBytesAreReportedBeforeTheFirstStep) {
  const std::string json = TrainPlan("lenet_ce_sgd", Module::PlanFormat::kJson);
  const size_t at = json.find("\"peak_bytes\":");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::stoll(json.substr(at + 13)), 1000);
}

#ifdef STROP_WITH_ONEDNN
// The layout of the value that `plan` writes under this name.
std::string LayoutOf(const std::string& plan, const std::string& value) {
  const size_t out = plan.find("out: " + value + " (");
  if (out == std::string::npos) return "no " + value;
  const std::string line = plan.substr(out, plan.find('\n', out) - out);
  const size_t at = line.find("blocked");
  return at < line.find('@') ? line.substr(at, line.find(' ', at) - at)
                             : "plain";
}

// Convolutions, pools and the Relu behind them (it stands before them in the
// file) pass tensors to each other as they lie, forward and backward; only
// where a chain begins and ends is a Reorder. The 6 channels of the first one
// are plain where the vectors are long, the 16 of the second one blocked.
TEST(Plan, TheConvolutionChainsOfLeNetKeepTheirLayouts) {
  const std::string plan = TrainPlan("lenet_ce_sgd", Module::PlanFormat::kText);
  const std::string few = LayoutOf(plan, "conv1_out");
  EXPECT_TRUE(few == "plain" || few == "blocked8") << few;
  for (const char* value :
       {"MaxPool_1_out_before_relu", "MaxPool_1_out", "Relu_1_out_grad"}) {
    EXPECT_EQ(LayoutOf(plan, value), few) << value;
  }
  for (const char* value : {"conv2_out", "MaxPool_2_out", "conv2_out_grad"}) {
    EXPECT_EQ(LayoutOf(plan, value).substr(0, 7), "blocked") << value;
  }
  EXPECT_GE(Count(plan, " Reorder "), 1u) << plan;
  EXPECT_LE(Count(plan, " Reorder "), 3u) << plan;
}
#endif

}  // namespace
}  // namespace strop
