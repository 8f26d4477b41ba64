// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_budget.h"

#include <algorithm>

#include "base/throw.h"

namespace strop {
namespace {

size_t BytesOf(DataType type, const Shape& shape) {
  return Tensor(type, shape, nullptr).byte_count();
}

}  // namespace

void StepBudget::Check(size_t bytes) const {
  if (memory_limit_ == 0 || held_ + bytes <= memory_limit_) return;
  Throw(ErrorCode::kOutOfMemory,
        "a step of graph \"{}\" with these shapes holds {} bytes, the limit "
        "is {} bytes",
        graph_, held_ + bytes, memory_limit_);
}

void StepBudget::Work(size_t bytes) {
  if (work_left_ == std::numeric_limits<size_t>::max()) return;
  if (bytes > work_left_) throw FoldTooLarge{};
  work_left_ -= bytes;
}

void HeldBytes::Add(size_t bytes) {
  budget_->Check(bytes);
  budget_->Work(bytes);
  budget_->held_ += bytes;
  bytes_ += bytes;
}

void HeldBytes::Release() {
  budget_->held_ -= bytes_;
  bytes_ = 0;
}

HeldTensor::HeldTensor(StepBudget& budget, DataType type, const Shape& shape)
    : held_(budget) {
  held_.Add(BytesOf(type, shape));
  tensor_ = OwnedTensor(type, shape);
}

HeldTensor::HeldTensor(StepBudget& budget, const Tensor& source)
    : held_(budget) {
  held_.Add(source.byte_count());
  tensor_ = OwnedTensor(source);
}

OwnedTensor HeldTensor::Take() && {
  held_.Release();
  return std::move(tensor_);
}

FoldScope::FoldScope(StepBudget& budget, size_t limit)
    : budget_(budget),
      before_(budget.work_left_),
      allowed_(std::min(limit, before_)) {
  budget_.work_left_ = allowed_;
}

FoldScope::~FoldScope() {
  const bool unlimited = before_ == std::numeric_limits<size_t>::max();
  const size_t spent = allowed_ - budget_.work_left_;
  budget_.work_left_ = unlimited ? before_ : before_ - spent;
}

}  // namespace strop
