// SPDX-License-Identifier: Apache-2.0
#include "strop/lr_scheduler.h"

#include <algorithm>
#include <utility>

#include "base/throw.h"

namespace strop {
namespace {

// a - b; exact for all counts that occur, and defined for all others.
float Difference(int64_t a, int64_t b) {
  return static_cast<float>(static_cast<double>(a) - static_cast<double>(b));
}

float LinearFactor(int64_t step, int64_t warmup, int64_t total) {
  if (step < warmup) {
    return static_cast<float>(step) /
           static_cast<float>(std::max<int64_t>(1, warmup));
  }
  return std::max(0.0f, Difference(total, step) /
                            std::max(1.0f, Difference(total, warmup)));
}

}  // namespace

LinearLRScheduler::LinearLRScheduler(std::shared_ptr<Optimizer> optimizer,
                                     int64_t warmup_step_count,
                                     int64_t total_step_count,
                                     int64_t first_step)
    : optimizer_(std::move(optimizer)),
      warmup_step_count_(warmup_step_count),
      total_step_count_(total_step_count),
      first_step_(std::max<int64_t>(0, first_step)) {
  if (optimizer_ == nullptr) {
    Throw(ErrorCode::kInvalidArgument,
          "LinearLRScheduler: the optimizer is null");
  }
  Step();
}

void LinearLRScheduler::Step() {
  const int64_t step =
      std::max<int64_t>(0, optimizer_->step_count() - first_step_);
  optimizer_->SetLearningRate(
      optimizer_->GetInitialLearningRate() *
      LinearFactor(step, warmup_step_count_, total_step_count_));
}

}  // namespace strop
