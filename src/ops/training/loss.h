// SPDX-License-Identifier: Apache-2.0
//
// What losses over classes share.
#pragma once

#include <cmath>

#include "ops/op_util.h"

namespace strop::ops {

enum class Reduction { kNone, kSum, kMean };

inline Reduction ReadReduction(const OpNode& node) {
  const std::string_view name = node.String("reduction", "mean");
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  Fail(node, "attribute reduction is \"{}\"", name);
}

// Scores as (outer, classes, inner), one sample per (outer, inner).
struct LossSizes {
  int64_t outer, classes, inner;
  int64_t samples() const { return outer * inner; }
  // Where the first class of a sample stands.
  int64_t Offset(int64_t sample) const {
    return sample / inner * classes * inner + sample % inner;
  }
};

// max + log(sum(exp(x - max))) over the classes of a sample
template <class T>
struct LogSum {
  T largest, log_sum;
};
template <class T>
LogSum<T> LogSumOf(const T* x, const LossSizes& s) {
  T largest = x[0];
  for (int64_t k = 1; k < s.classes; ++k) {
    largest = std::max(largest, x[k * s.inner]);
  }
  double sum = 0;
  for (int64_t k = 0; k < s.classes; ++k) {
    sum += static_cast<double>(std::exp(x[k * s.inner] - largest));
  }
  return {largest, static_cast<T>(std::log(sum))};
}

}  // namespace strop::ops
