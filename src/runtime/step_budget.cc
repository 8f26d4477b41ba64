// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_budget.h"

#include <utility>

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

void HeldBytes::Add(size_t bytes) {
  budget_->Check(bytes);
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

}  // namespace strop
