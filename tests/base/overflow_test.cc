// SPDX-License-Identifier: Apache-2.0
#include "base/overflow.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace strop {
namespace {

constexpr int64_t kMost = INT64_MAX;

TEST(Overflow, AddsUpToTheLimits) {
  int64_t sum = 0;
  EXPECT_FALSE(AddOverflows(kMost - 3, 3, &sum));
  EXPECT_EQ(sum, kMost);
  EXPECT_TRUE(AddOverflows(kMost - 3, 4, &sum));
  EXPECT_FALSE(AddOverflows(INT64_MIN + 3, -3, &sum));
  EXPECT_EQ(sum, INT64_MIN);
  EXPECT_TRUE(AddOverflows(INT64_MIN + 3, -4, &sum));
  EXPECT_FALSE(AddOverflows(kMost, INT64_MIN, &sum));
  EXPECT_EQ(sum, -1);
}

TEST(Overflow, MultipliesUpToTheLimits) {
  int64_t product = 1;
  EXPECT_FALSE(MultiplyOverflows(kMost / 7, 7, &product));  // 7 divides it
  EXPECT_EQ(product, kMost);
  EXPECT_TRUE(MultiplyOverflows(kMost / 7 + 1, 7, &product));
  EXPECT_TRUE(MultiplyOverflows(int64_t{1} << 32, int64_t{1} << 31, &product));
  EXPECT_FALSE(MultiplyOverflows(kMost, 0, &product));
  EXPECT_EQ(product, 0);
  EXPECT_FALSE(MultiplyOverflows(int64_t{0}, kMost, &product));
  EXPECT_EQ(product, 0);
  uint64_t bytes = 0;
  EXPECT_FALSE(MultiplyOverflows(UINT64_MAX / 5, 5, &bytes));
  EXPECT_EQ(bytes, UINT64_MAX);
  EXPECT_TRUE(MultiplyOverflows(UINT64_MAX / 5 + 1, 5, &bytes));
}

}  // namespace
}  // namespace strop
