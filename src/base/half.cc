// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <bit>
#include <cstdint>

namespace strop {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000;

}  // namespace

float ToFloat(Float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1f;
  const uint32_t mantissa = x.bits & 0x3ff;
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24, exact in float32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    return std::bit_cast<float>(sign | kFloatInfinity | mantissa << 13);
  }
  // The biases differ by 127 - 15.
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

float ToFloat(Bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

Float16 ToFloat16(float x) {
  const uint32_t all = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (all >> 16) & 0x8000;
  const uint32_t bits = all & 0x7fffffff;
  uint32_t half;
  if (bits > kFloatInfinity) {
    half = 0x7e00 | ((bits >> 13) & 0x3ff);  // a quiet NaN
  } else if (bits >= 0x47800000) {           // 65536
    half = 0x7c00;
  } else if (bits < 0x38800000) {  // 2^-14: the result is subnormal
    // Beside 0.5 the last bit of a float32 is worth 2^-24, as that of a
    // subnormal float16, so the addition rounds at the right place.
    const float shifted = std::bit_cast<float>(bits) + 0.5f;
    half = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  } else {
    // Round to nearest even; a carry may run into the exponent, to infinity.
    half = ((bits + 0xfff + ((bits >> 13) & 1)) >> 13) - (112 << 10);
  }
  return Float16{static_cast<uint16_t>(sign | half)};
}

Bfloat16 ToBfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffff) > kFloatInfinity;
  const uint32_t rounded =
      is_nan ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
  return Bfloat16{static_cast<uint16_t>(rounded >> 16)};
}

}  // namespace strop
