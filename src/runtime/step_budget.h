// SPDX-License-Identifier: Apache-2.0
//
// What a step may use: one budget for a graph and all its sub-graphs.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "strop/tensor.h"

namespace strop {

class StepBudget {
 public:
  // `memory_limit` is of bytes held at once; 0: no limit.
  StepBudget(std::string graph, size_t memory_limit)
      : graph_(std::move(graph)), memory_limit_(memory_limit) {}

  // Throws kOutOfMemory where the step would hold too much with `bytes` more.
  void Check(size_t bytes) const;

 private:
  friend class HeldBytes;
  std::string graph_;
  size_t memory_limit_;
  size_t held_ = 0;
};

// Memory that a step holds, given back at the end of the scope.
class HeldBytes {
 public:
  explicit HeldBytes(StepBudget& budget) : budget_(&budget) {}
  HeldBytes(HeldBytes&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes() { Release(); }

  // To be called before the memory is allocated: throws as Check does.
  void Add(size_t bytes);
  void Release();

 private:
  StepBudget* budget_;
  size_t bytes_ = 0;
};

// A tensor that counts as held.
class HeldTensor {
 public:
  // A tensor of zeros.
  HeldTensor(StepBudget& budget, DataType type, const Shape& shape);
  // A copy of `source`.
  HeldTensor(StepBudget& budget, const Tensor& source);

  const Tensor& view() const { return tensor_.view(); }
  DataType type() const { return tensor_.type(); }
  const Shape& shape() const { return tensor_.shape(); }
  // The tensor, which counts no longer.
  OwnedTensor Take() &&;

 private:
  HeldBytes held_;
  OwnedTensor tensor_;
};

}  // namespace strop
