// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strop/module.h"

namespace strop {

// Updates the parameters of a state from their gradients, as the optimizer
// model says (AdamWOptimizer or SGDOptimizerV2, with InplaceClipGradNorm
// before it or not). Moments live in the state's group "group0".
class STROP_EXPORT Optimizer {
 public:
  // `models.optimizer` is the graph. A Module must have been made on `state`,
  // which outlives the Optimizer. Moments are zero unless the state has them.
  // On a nominal state they are made at the first step after the state was
  // completed. Throws kInvalidArgument without an optimizer model, where the
  // state has nothing to train, or its moments do not fit the parameters;
  // kInvalidGraph for a graph that is not one of these optimizers;
  // kFailedState without a Module.
  Optimizer(
      const ModelIdentifiers& models, CheckpointState* state,
      const SessionOptions& options, const Environment& environment,
      const std::vector<std::shared_ptr<ExecutionProvider>>& providers = {},
      std::span<const CustomOpDomain* const> custom_ops = {});
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Makes the moments of a nominal state that was completed; Step does it by
  // itself. Does nothing for any other state.
  void ConstructState();

  // One update of every trainable parameter, in place. Gradients stay as
  // they are (clipped, if the model clips). Throws kFailedState while the
  // state is nominal; nothing has changed then.
  void Step();

  // 0.001 before anything is set; the stored rate after a resume.
  float GetLearningRate() const;
  // Holds until it is set again, by a scheduler too.
  void SetLearningRate(float rate);
  // The rate that schedulers scale; sets the current rate as well.
  void SetInitialLearningRate(float rate);
  float GetInitialLearningRate() const;
  // Completed updates, over all sessions of the state.
  int64_t step_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
