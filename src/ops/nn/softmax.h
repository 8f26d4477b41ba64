// SPDX-License-Identifier: Apache-2.0
//
// What the ops of the softmax family share.
#pragma once

#include <cmath>

#include "ops/axis.h"

namespace strop::ops {

// All axes from `axis` on as one.
inline AxisSizes CoercedSizes(const OpNode& node, const Shape& x) {
  const int64_t rank = static_cast<int64_t>(x.rank());
  int64_t axis = node.Int("axis", 1);
  if (axis < -rank || axis > rank) {
    Fail(node, "axis {} is out of range for rank {}", axis, rank);
  }
  if (axis < 0) axis += rank;
  return {x.element_count(0, axis), x.element_count(axis, rank), 1};
}

inline AxisSizes LastByDefault(const OpNode& node, const Shape& x) {
  return ReadAxis(node, x, -1);
}

// Calls line(offset) for the first element of every line.
template <class F>
void ForEachLine(const KernelContext& c, const AxisSizes& s, double cost,
                 F&& line) {
  if (s.size == 0) return;
  c.ParallelFor(s.lines(), cost * static_cast<double>(s.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    line(s.Start(i));
                  }
                });
}

template <class T>
T LargestOf(const T* x, const AxisSizes& s) {
  T largest = x[0];
  for (int64_t i = 1; i < s.size; ++i) {
    largest = std::max(largest, x[i * s.inner]);
  }
  return largest;
}

// y = exp(x - max) / sum(exp(x - max)) of one line; y may be x.
template <class T>
void SoftmaxLine(const T* x, const AxisSizes& s, T* y) {
  const T largest = LargestOf(x, s);
  double sum = 0;
  for (int64_t i = 0; i < s.size; ++i) {
    const T e = std::exp(x[i * s.inner] - largest);
    y[i * s.inner] = e;
    sum += static_cast<double>(e);
  }
  const T scale = static_cast<T>(1 / sum);
  for (int64_t i = 0; i < s.size; ++i) y[i * s.inner] *= scale;
}

}  // namespace strop::ops
