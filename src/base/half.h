// SPDX-License-Identifier: Apache-2.0
//
// Conversions of the 16-bit floating-point types, rounding to nearest even.
// Infinities and NaN are kept (a NaN stays a NaN, its payload may change).
#pragma once

#include "strop/tensor.h"

namespace strop {

float ToFloat(Float16 x);
float ToFloat(Bfloat16 x);
Float16 ToFloat16(float x);
Bfloat16 ToBfloat16(float x);

}  // namespace strop
