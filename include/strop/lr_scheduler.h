// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "strop/optimizer.h"

namespace strop {

// Sets the rate of an optimizer from its step counter.
class STROP_EXPORT LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  // Sets the rate for the optimizer's current step; calling it twice without
  // an optimizer step in between changes nothing.
  virtual void Step() = 0;
};

// rate = initial rate * factor(s), s = optimizer steps completed after the
// first `first_step`, in float32:
//   s < warmup:  s / max(1, warmup)
//   otherwise:   max(0, (total - s) / max(1, total - warmup))
class STROP_EXPORT LinearLRScheduler : public LRScheduler {
 public:
  // Calls Step once. The counts are not checked, as in ONNX Runtime.
  // `first_step` is the optimizer's step count where the schedule begins:
  // with 0, as in ONNX Runtime, steps of earlier runs of the state count too.
  LinearLRScheduler(std::shared_ptr<Optimizer> optimizer,
                    int64_t warmup_step_count, int64_t total_step_count,
                    int64_t first_step = 0);
  void Step() override;

 private:
  std::shared_ptr<Optimizer> optimizer_;
  int64_t warmup_step_count_;
  int64_t total_step_count_;
  int64_t first_step_;
};

}  // namespace strop
