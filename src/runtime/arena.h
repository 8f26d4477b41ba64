// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "strop/tensor.h"

namespace strop {

// The one block of memory that the plans of a session share. Plans hold
// offsets into it and look the base up before they run.
class Arena {
 public:
  // Makes the arena at least `bytes` long. Growing loses the contents and
  // moves the base. Throws kOutOfMemory and stays as it was.
  void Reserve(size_t bytes) {
    if (bytes <= size_) return;
    memory_ = OwnedTensor(DataType::kUint8, {static_cast<int64_t>(bytes)});
    size_ = bytes;
  }
  // Every float in it is NaN.
  void FillWithNan() {
    std::ranges::fill(memory_.view().bytes(), std::byte{0xff});
  }
  std::byte* base() const {
    return static_cast<std::byte*>(memory_.view().data());
  }
  size_t size() const { return size_; }

 private:
  OwnedTensor memory_;
  size_t size_ = 0;
};

}  // namespace strop
