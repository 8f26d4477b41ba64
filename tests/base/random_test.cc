// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace strop {
namespace {

using Block = std::array<uint32_t, 4>;

// The three known answers for Philox4x32-10 that its authors publish. The
// counter is (index low, index high, step, node), the key is the seed.
TEST(Random, GivesTheKnownAnswersOfPhilox) {
  EXPECT_EQ(RandomBlock({.seed = 0, .node = 0, .step = 0}, 0),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      RandomBlock({.seed = UINT64_MAX, .node = UINT32_MAX, .step = UINT32_MAX},
                  UINT64_MAX),
      (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      RandomBlock(
          {.seed = 0x299f31d0'a4093822, .node = 0x03707344, .step = 0x13198a2e},
          0x85a308d3'243f6a88),
      (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfTheKeyMatters) {
  const RandomKey key = {.seed = 1, .node = 2, .step = 3};
  const Block block = RandomBlock(key, 4);
  EXPECT_NE(RandomBlock({.seed = 9, .node = 2, .step = 3}, 4), block);
  EXPECT_NE(RandomBlock({.seed = 1, .node = 9, .step = 3}, 4), block);
  EXPECT_NE(RandomBlock({.seed = 1, .node = 2, .step = 9}, 4), block);
  EXPECT_NE(RandomBlock({.seed = 1, .node = 2, .step = 3ull << 32 | 3}, 4),
            block);
  EXPECT_NE(RandomBlock(key, 5), block);
}

TEST(Random, UniformTakesTheWordsOfABlockInOrder) {
  const RandomKey key = {.seed = 7, .node = 1, .step = 2};
  for (uint64_t i = 0; i < 64; ++i) {
    const uint32_t word = RandomBlock(key, i / 4)[i % 4];
    EXPECT_EQ(RandomUniform(key, i), static_cast<float>(word >> 8) / (1 << 24));
  }
}

TEST(Random, UniformHasMeanAndVarianceOfItsLaw) {
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = RandomUniform({.seed = 42}, static_cast<uint64_t>(i));
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5, 0.005);
  EXPECT_NEAR(squares / kCount - mean * mean, 1.0 / 12, 0.002);
}

std::vector<uint64_t> Draw(uint64_t seed, uint64_t epoch, uint64_t bound) {
  Shuffler shuffler(seed, epoch);
  std::vector<uint64_t> values(1000);
  for (uint64_t& value : values) value = shuffler.Next(bound);
  return values;
}

TEST(Shuffler, StaysBelowTheBoundAndReachesAllValues) {
  std::vector<int> count(6);
  for (uint64_t value : Draw(1, 0, 6)) {
    ASSERT_LT(value, 6u);
    ++count[value];
  }
  for (int c : count) EXPECT_NEAR(c, 1000.0 / 6, 60);
  for (uint64_t value : Draw(1, 0, 1)) ASSERT_EQ(value, 0u);
}

TEST(Shuffler, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(Draw(1, 2, 1000), Draw(1, 2, 1000));
  EXPECT_NE(Draw(1, 2, 1000), Draw(1, 3, 1000));
  EXPECT_NE(Draw(1, 2, 1000), Draw(2, 2, 1000));
}

// With bound 2^63 + 1 almost half of all words are rejected; without that
// the values below 2^63 - 1 would come twice as often as the last two.
TEST(Shuffler, RejectsWordsThatWouldBiasIt) {
  constexpr uint64_t kBound = (uint64_t{1} << 63) + 1;
  int upper = 0;
  for (uint64_t value : Draw(5, 0, kBound)) {
    ASSERT_LT(value, kBound);
    if (value >= kBound / 2) ++upper;
  }
  EXPECT_NEAR(upper, 500, 80);
}

TEST(Seed, IsWhatWasSet) {
  EXPECT_EQ(GetSeed(), 0);
  SetSeed(-12);
  EXPECT_EQ(GetSeed(), -12);
  SetSeed(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(GetSeed(), std::numeric_limits<int64_t>::max());
  SetSeed(0);
}

}  // namespace
}  // namespace strop
