// SPDX-License-Identifier: Apache-2.0
//
// How kernels place their scratch and cut their work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/round.h"
#include "strop/op.h"

namespace strop {

// Places the parts of a kernel's scratch one behind the other.
class ScratchLayout {
 public:
  // The offset of `bytes` more bytes, 64-byte aligned.
  size_t Add(size_t bytes) {
    const size_t offset = total_;
    total_ += RoundUp<size_t>(bytes, 64);
    return offset;
  }
  size_t AddFloats(int64_t count) {
    return Add(static_cast<size_t>(count) * sizeof(float));
  }
  size_t total() const { return total_; }

 private:
  size_t total_ = 0;
};

inline float* FloatsAt(const KernelContext& context, size_t offset) {
  return reinterpret_cast<float*>(context.scratch() + offset);
}

// The i-th of `parts` nearly equal parts of [0, n) begins here.
inline int64_t PartStart(int64_t n, int64_t parts, int64_t i) {
  return n / parts * i + (i < n % parts ? i : n % parts);
}

}  // namespace strop
