// SPDX-License-Identifier: Apache-2.0
//
// Turns pairs of a head's numbers:
//   (x1, x2) -> (x1 cos - x2 sin, x1 sin + x2 cos)
// A pair is two neighbours (interleaved), or one number of each half of what
// is turned. What is behind the pairs stays as it is.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strop::ops {

template <class T>
void TurnHead(int64_t pairs, int64_t head_size, bool interleaved,
              const T* cosines, const T* sines, const T* x, T* y) {
  const int64_t step = interleaved ? 2 : 1;
  const int64_t other = interleaved ? 1 : pairs;
  for (int64_t i = 0; i < pairs; ++i) {
    const T x1 = x[i * step], x2 = x[i * step + other];
    y[i * step] = x1 * cosines[i] - x2 * sines[i];
    y[i * step + other] = x1 * sines[i] + x2 * cosines[i];
  }
  std::copy(x + 2 * pairs, x + head_size, y + 2 * pairs);
}

}  // namespace strop::ops
