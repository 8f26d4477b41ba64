// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace strop {

// The cheap ones first.
enum class UnaryOperation : uint8_t {
  kRelu,
  kNeg,
  kAbs,
  kSqrt,
  kExp,
  kLog,
  kTanh,
  kSigmoid,
};

enum class BinaryOperation : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  // (dy, x) or (dy, y): see training ops of those names.
  kReluGrad,
  kTanhGrad,
  kSigmoidGrad,
};

// The gradients, of (dy, y), last.
enum class SoftmaxOperation : uint8_t {
  kSoftmax,
  kLogSoftmax,
  kSoftmaxGrad,
  kLogSoftmaxGrad,
};

}  // namespace strop
