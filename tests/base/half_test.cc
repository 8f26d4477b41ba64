// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace strop {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint16_t HalfBits(float x) { return ToFloat16(x).bits; }
uint16_t BrainBits(float x) { return ToBfloat16(x).bits; }

TEST(Float16, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float x = ToFloat(half);
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(x)) << bits;
      ASSERT_TRUE(std::isnan(ToFloat(ToFloat16(x)))) << bits;
    } else {
      ASSERT_EQ(HalfBits(x), bits);
    }
  }
}

// The value of a finite float16 by its definition.
TEST(Float16, HasTheValueOfItsFields) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const int mantissa = static_cast<int>(bits & 0x3ff);
    const double wanted = exponent == 0
                              ? std::ldexp(mantissa, -24)
                              : std::ldexp(1024 + mantissa, exponent - 25);
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_EQ(ToFloat(Float16{half}), wanted);
    const auto negative = static_cast<uint16_t>(bits | 0x8000);
    ASSERT_EQ(ToFloat(Float16{negative}), -wanted);
  }
}

TEST(Float16, RoundsToNearestEven) {
  // Between each pair of neighbours: just below the middle, the middle, above.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const float middle = (ToFloat(Float16{low}) + ToFloat(Float16{high})) / 2;
    ASSERT_EQ(HalfBits(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(HalfBits(middle), low % 2 == 0 ? low : high);
    ASSERT_EQ(HalfBits(std::nextafter(middle, kInfinity)), high);
  }
}

TEST(Float16, KeepsSpecialValues) {
  EXPECT_EQ(HalfBits(0.0f), 0x0000);
  EXPECT_EQ(HalfBits(-0.0f), 0x8000);
  EXPECT_EQ(HalfBits(kInfinity), 0x7c00);
  EXPECT_EQ(HalfBits(-kInfinity), 0xfc00);
  EXPECT_EQ(HalfBits(65504.0f), 0x7bff);
  EXPECT_EQ(HalfBits(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(HalfBits(65520.0f), 0x7c00);
  EXPECT_EQ(HalfBits(3e38f), 0x7c00);
  EXPECT_EQ(HalfBits(1e-40f), 0x0000);
  // A NaN whose payload lies in the dropped bits must not become infinity.
  EXPECT_TRUE(
      std::isnan(ToFloat(ToFloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Bfloat16, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Bfloat16 brain{static_cast<uint16_t>(bits)};
    const float x = ToFloat(brain);
    ASSERT_EQ(std::bit_cast<uint32_t>(x), bits << 16);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(ToFloat(ToBfloat16(x)))) << bits;
    } else {
      ASSERT_EQ(BrainBits(x), bits);
    }
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(BrainBits(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(BrainBits(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(BrainBits(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(BrainBits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(
      std::isnan(ToFloat(ToBfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace strop
