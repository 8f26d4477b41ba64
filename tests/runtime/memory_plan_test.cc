// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace strop {
namespace {

TEST(MemoryPlan, BuffersOfDifferentTimesShareMemory) {
  const BufferLife lives[] = {{100, 0, 1}, {100, 2, 3}};
  const MemoryPlan plan = PlanMemory(lives);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.total_bytes, 128u);
}

TEST(MemoryPlan, BuffersThatMeetInOneStepDoNotShare) {
  const BufferLife lives[] = {{64, 0, 2}, {64, 2, 3}};
  const MemoryPlan plan = PlanMemory(lives);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.total_bytes, 128u);
}

TEST(MemoryPlan, SmallBufferGoesIntoTheGapOfALargeOne) {
  // 0 and 1 live together; 2 fits where 0 lay once 0 is dead.
  const BufferLife lives[] = {{256, 0, 1}, {512, 0, 3}, {128, 2, 3}};
  const MemoryPlan plan = PlanMemory(lives);
  EXPECT_EQ(plan.total_bytes, 768u);
}

TEST(MemoryPlan, EmptyBuffersTakeNothing) {
  const BufferLife lives[] = {{0, 0, 5}, {0, 0, 5}};
  EXPECT_EQ(PlanMemory(lives).total_bytes, 0u);
}

TEST(MemoryPlan, RandomBuffersNeverOverlapInTimeAndSpace) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferLife> lives(40);
    for (BufferLife& life : lives) {
      life.bytes = random() % 1000;
      life.first = static_cast<int>(random() % 30);
      life.last = life.first + static_cast<int>(random() % 8);
    }
    const MemoryPlan plan = PlanMemory(lives);
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.total_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool in_time =
            lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool in_space =
            plan.offsets[i] < plan.offsets[j] + lives[j].bytes &&
            plan.offsets[j] < plan.offsets[i] + lives[i].bytes;
        EXPECT_FALSE(in_time && in_space) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace strop
