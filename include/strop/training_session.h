// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "strop/lr_scheduler.h"
#include "strop/module.h"
#include "strop/optimizer.h"

namespace strop {

// Module, optimizer (where there is an optimizer model) and scheduler as one
// object, with the calls of ONNX Runtime's TrainingSession.
class STROP_EXPORT TrainingSession {
 public:
  TrainingSession(
      const Environment& environment, const SessionOptions& options,
      const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
      CheckpointState* state, const ModelIdentifiers& models,
      std::span<const CustomOpDomain* const> custom_ops = {});
  ~TrainingSession();

  Module& module() { return *module_; }
  // Throws kFailedState without an optimizer model.
  Optimizer& optimizer();

  using SchedulerFactory =
      std::function<std::unique_ptr<LRScheduler>(std::shared_ptr<Optimizer>)>;
  // Makes the scheduler, then sets the initial and the current rate: as in
  // ONNX Runtime's C interface the rate equals `initial_lr` until the first
  // SchedulerStep, even with a warm-up. A second call replaces the first.
  void RegisterScheduler(const SchedulerFactory& factory, float initial_lr);

  void TrainStep(std::span<const Tensor> inputs,
                 std::vector<OwnedTensor>* outputs) {
    module_->TrainStep(inputs, outputs);
  }
  void EvalStep(std::span<const Tensor> inputs,
                std::vector<OwnedTensor>* outputs) {
    module_->EvalStep(inputs, outputs);
  }
  void LazyResetGrad() { module_->LazyResetGrad(); }
  // The next three throw kFailedState without an optimizer model.
  void OptimizerStep();
  void SetLearningRate(float rate);
  float GetLearningRate();
  // Throws kFailedState if no scheduler was registered.
  void SchedulerStep();

  // As in Module; completing a nominal state makes the optimizer's too.
  int64_t GetParametersSize(bool trainable_only = true) const;
  void CopyParametersToBuffer(const Tensor& buffer,
                              bool trainable_only = true) const;
  void CopyBufferToParameters(const Tensor& buffer, bool trainable_only = true);
  void ExportModelForInferencing(
      const std::filesystem::path& path,
      std::span<const std::string> output_names) const;

 private:
  std::unique_ptr<Module> module_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<LRScheduler> scheduler_;
};

}  // namespace strop
