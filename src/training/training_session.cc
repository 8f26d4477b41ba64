// SPDX-License-Identifier: Apache-2.0
#include "strop/training_session.h"

#include <utility>

#include "base/throw.h"

namespace strop {

TrainingSession::TrainingSession(
    const Environment& environment, const SessionOptions& options,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
    CheckpointState* state, const ModelIdentifiers& models,
    std::span<const CustomOpDomain* const> custom_ops)
    : module_(std::make_unique<Module>(models, state, options, environment,
                                       providers, custom_ops)) {
  if (models.optimizer) {
    optimizer_ = std::make_shared<Optimizer>(
        models, state, options, environment, providers, custom_ops);
  }
}

TrainingSession::~TrainingSession() = default;

Optimizer& TrainingSession::optimizer() {
  if (optimizer_ == nullptr) {
    Throw(ErrorCode::kFailedState,
          "TrainingSession: there is no optimizer model");
  }
  return *optimizer_;
}

void TrainingSession::RegisterScheduler(const SchedulerFactory& factory,
                                        float initial_lr) {
  optimizer();
  std::unique_ptr<LRScheduler> scheduler = factory(optimizer_);
  if (scheduler == nullptr) {
    Throw(ErrorCode::kInvalidArgument,
          "RegisterScheduler: the factory made no scheduler");
  }
  scheduler_ = std::move(scheduler);
  optimizer_->SetInitialLearningRate(initial_lr);
}

void TrainingSession::OptimizerStep() { optimizer().Step(); }

void TrainingSession::SetLearningRate(float rate) {
  optimizer().SetLearningRate(rate);
}

float TrainingSession::GetLearningRate() {
  return optimizer().GetLearningRate();
}

void TrainingSession::SchedulerStep() {
  if (scheduler_ == nullptr) {
    Throw(ErrorCode::kFailedState,
          "SchedulerStep: no learning rate scheduler was registered");
  }
  scheduler_->Step();
}

int64_t TrainingSession::GetParametersSize(bool trainable_only) const {
  return module_->GetParametersSize(trainable_only);
}

void TrainingSession::CopyParametersToBuffer(const Tensor& buffer,
                                             bool trainable_only) const {
  module_->CopyParametersToBuffer(buffer, trainable_only);
}

void TrainingSession::CopyBufferToParameters(const Tensor& buffer,
                                             bool trainable_only) {
  module_->CopyBufferToParameters(buffer, trainable_only);
  if (optimizer_ != nullptr) optimizer_->ConstructState();
}

void TrainingSession::ExportModelForInferencing(
    const std::filesystem::path& path,
    std::span<const std::string> output_names) const {
  module_->ExportModelForInferencing(path, output_names);
}

}  // namespace strop
