// SPDX-License-Identifier: Apache-2.0
//
// What the ops that drop elements share.
#pragma once

#include "ops/random/stream.h"

namespace strop::ops {

// The dropped share; throws unless it is in [0, 1).
inline double ReadRatio(const KernelContext& c, size_t i) {
  const double ratio =
      c.has_input(i) ? ScalarAsDouble(c.node(), c.input(i)) : 0.5;
  if (!(ratio >= 0 && ratio < 1)) {
    Fail(c.node(), "the ratio must lie in [0, 1), it is {}", ratio);
  }
  return ratio;
}

// Inputs ratio and training_mode, from input `first` on.
inline void CheckSettings(const InferContext& c, size_t first) {
  if (c.has_input(first)) RequireOneElement(c, first);
  if (c.has_input(first + 1)) {
    RequireOneElement(c, first + 1);
    RequireType(c, first + 1, DataType::kBool);
  }
}

// Which elements stay, and what they are multiplied with.
class Dropper {
 public:
  // With a ratio of 0 all stay.
  Dropper(const KernelContext& c, double ratio)
      : key_(StreamOf(c)),
        threshold_(static_cast<float>(ratio)),
        scale_(1 / (1 - ratio)) {}

  bool Keeps(int64_t i) const {
    return threshold_ == 0 ||
           RandomUniform(key_, static_cast<uint64_t>(i)) >= threshold_;
  }
  double scale() const { return scale_; }

 private:
  RandomKey key_;
  float threshold_;
  double scale_;
};

// That of inputs ratio and training_mode, from input `first` on.
inline Dropper ReadDropper(const KernelContext& c, size_t first) {
  const double ratio = ReadRatio(c, first);
  return Dropper(c, FlagInput(c, first + 1, false) ? ratio : 0);
}

}  // namespace strop::ops
