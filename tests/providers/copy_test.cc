// SPDX-License-Identifier: Apache-2.0
//
// Concat, Split and ExpandLike in plain and blocked layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "providers/cpu/conv/kernels.h"
#include "providers/layout_runner.h"

namespace strop {
namespace {

// What Concat along axis 1 gives for parts of (images, channels, positions).
std::vector<float> Joined(const std::vector<std::vector<float>>& parts,
                          const std::vector<int64_t>& channels, int64_t images,
                          int64_t positions) {
  std::vector<float> whole;
  for (int64_t n = 0; n < images; ++n) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto first = parts[i].begin() + n * channels[i] * positions;
      whole.insert(whole.end(), first, first + channels[i] * positions);
    }
  }
  return whole;
}

struct CutCase {
  std::vector<int64_t> channels;
  Layout layout;
  Layout expected;  // in which the kernel works
};

const CutCase kCutCases[] = {
    {{3, 5, 4}, Layout::kPlain, Layout::kPlain},
    {{16, 8, 5}, Layout::kBlocked8, Layout::kBlocked8},
    {{16, 32}, Layout::kBlocked16, Layout::kBlocked16},
    {{8, 16}, Layout::kBlocked16, Layout::kPlain},
};

TEST(Concat, JoinsChannels) {
  for (const CutCase& c : kCutCases) {
    LayoutRunner runner(kMicrosoft, "ConcatTraining");
    runner.Set("axis", int64_t{1});
    std::vector<std::vector<float>> parts;
    int64_t sum = 0;
    for (const int64_t channels : c.channels) {
      parts.push_back(RandomFloats(2 * channels * 6, 1 + parts.size()));
      runner.Floats({2, channels, 3, 2}, parts.back(), c.layout);
      sum += channels;
    }
    const auto count = static_cast<int64_t>(parts.size());
    runner.Output({2, sum, 3, 2}).Output({count}, DataType::kInt64);
    const LayoutRun run = runner.Run(ChooseConcat, 2);
    ASSERT_TRUE(run.accepted) << run.reason;
    EXPECT_EQ(run.layouts[0], c.expected);
    EXPECT_TRUE(
        std::ranges::equal(run.out(0), Joined(parts, c.channels, 2, 6)));
    EXPECT_TRUE(std::ranges::equal(run.out<int64_t>(1), c.channels));
  }
}

TEST(Concat, JoinsAnyAxis) {
  LayoutRunner runner(kOnnx, "Concat");
  runner.Set("axis", int64_t{-1});
  runner.Floats({2, 1}, {1, 4}).Floats({2, 2}, {2, 3, 5, 6}).Output({2, 3});
  const LayoutRun run = runner.Run(ChooseConcat, 1);
  ASSERT_TRUE(run.accepted) << run.reason;
  EXPECT_TRUE(
      std::ranges::equal(run.out(0), std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Split, CutsChannels) {
  for (const CutCase& c : kCutCases) {
    std::vector<std::vector<float>> parts;
    int64_t sum = 0;
    for (const int64_t channels : c.channels) {
      parts.push_back(RandomFloats(2 * channels * 6, 1 + parts.size()));
      sum += channels;
    }
    LayoutRunner runner(kOnnx, "Split");
    runner.Set("axis", int64_t{1});
    runner.Floats({2, sum, 6}, Joined(parts, c.channels, 2, 6), c.layout);
    for (const int64_t channels : c.channels) runner.Output({2, channels, 6});
    const LayoutRun run = runner.Run(ChooseSplit, 2);
    ASSERT_TRUE(run.accepted) << run.reason;
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(run.layouts[i], c.expected);
      EXPECT_TRUE(std::ranges::equal(run.out(i), parts[i])) << i;
    }
  }
}

TEST(ExpandLike, GivesAChannelsNumberToItsPositions) {
  for (const Layout layout :
       {Layout::kPlain, Layout::kBlocked8, Layout::kBlocked16}) {
    const std::vector<float> x = RandomFloats(2 * 11, 1);
    LayoutRunner runner(kInternal, "ExpandLike");
    runner.Floats({2, 11, 1, 1}, x);
    runner.Floats({2, 11, 3, 5}, RandomFloats(2 * 11 * 15, 2), layout);
    const LayoutRun run = runner.Output({2, 11, 3, 5}).Run(ChooseExpandLike, 2);
    ASSERT_TRUE(run.accepted) << run.reason;
    EXPECT_EQ(run.layouts[0], layout);
    for (size_t i = 0; i < run.out(0).size(); ++i) {
      ASSERT_EQ(run.out(0)[i], x[i / 15]) << i;
    }
  }
}

}  // namespace
}  // namespace strop
