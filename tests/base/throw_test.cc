// SPDX-License-Identifier: Apache-2.0
#include "base/throw.h"

#include <gtest/gtest.h>

#include <string>

namespace strop {
namespace {

TEST(Throw, FormatsItsTextAndKeepsTheCode) {
  try {
    Throw(ErrorCode::kNotFound, "no {} among {}", "cat", 3);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "no cat among 3");
  }
}

TEST(Check, NamesTheConditionThatDoesNotHold) {
  EXPECT_NO_THROW(STROP_CHECK(1 + 1 == 2));
  try {
    STROP_CHECK(1 + 1 == 3);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace strop
