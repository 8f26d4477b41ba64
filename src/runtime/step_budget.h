// SPDX-License-Identifier: Apache-2.0
//
// What a step may use: one budget for a graph and all its sub-graphs.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "strop/tensor.h"

namespace strop {

class StepBudget {
 public:
  // `memory_limit` is of bytes held at once; 0: no limit.
  StepBudget(std::string graph, size_t memory_limit)
      : graph_(std::move(graph)), memory_limit_(memory_limit) {}

  size_t memory_limit() const { return memory_limit_; }
  size_t held() const { return held_; }

  // Throws kOutOfMemory where the step would hold too much with `bytes` more.
  void Check(size_t bytes) const;

  // A sub-graph begins to run.
  void CountRun() { Work(kRunBytes); }

 private:
  friend class HeldBytes;
  friend class FoldScope;
  // What running a sub-graph costs beside its memory, as bytes of work.
  static constexpr size_t kRunBytes = 1024;

  void Work(size_t bytes);

  std::string graph_;
  size_t memory_limit_;
  size_t held_ = 0;
  // Bytes that may still be worked on before the step; no limit in it.
  size_t work_left_ = std::numeric_limits<size_t>::max();
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

// Thrown through executors where work before the step is given up. Nobody
// but the one who began it catches it.
struct FoldTooLarge {};

// While it lives, work on more bytes than `limit`, or than a scope around
// allows, throws FoldTooLarge.
class FoldScope {
 public:
  FoldScope(StepBudget& budget, size_t limit);
  ~FoldScope();
  FoldScope(const FoldScope&) = delete;
  FoldScope& operator=(const FoldScope&) = delete;

 private:
  StepBudget& budget_;
  size_t before_;   // work left to the scope around
  size_t allowed_;  // of it
};

}  // namespace strop
