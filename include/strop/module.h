// SPDX-License-Identifier: Apache-2.0
//
// A model that trains.
//
//   strop::Environment environment;
//   auto state = strop::CheckpointState::Load("checkpoint", environment);
//   strop::ModelIdentifiers models = {.train = "training_model.onnx",
//                                     .eval = "eval_model.onnx",
//                                     .optimizer = "optimizer_model.onnx"};
//   strop::Module module(models, &state, {}, environment);
//   std::vector<strop::OwnedTensor> outputs;
//   module.TrainStep(inputs, &outputs);   // outputs[0] is the loss
//
// Steps are not thread-safe: one at a time for a Module and for a state.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "strop/execution_provider.h"
#include "strop/op.h"
#include "strop/session_options.h"
#include "strop/tensor.h"

namespace strop {

struct ModelIdentifiers {
  ModelSource train;
  std::optional<ModelSource> eval = {};       // without: no EvalStep, no export
  std::optional<ModelSource> optimizer = {};  // without: no Optimizer
};

class STROP_EXPORT Module {
 public:
  // Reads and plans the models and attaches gradient buffers to the state's
  // trainable parameters. An empty `providers` means CpuExecutionProvider().
  // Throws kInvalidGraph or kInvalidArgument where models and state do not
  // fit together (a trainable parameter without a gradient buffer in the
  // graph, shapes that differ, ...); the state is then as before.
  Module(const ModelIdentifiers& models, CheckpointState* state,
         const SessionOptions& options, const Environment& environment,
         const std::vector<std::shared_ptr<ExecutionProvider>>& providers = {},
         std::span<const CustomOpDomain* const> custom_ops = {});
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // One forward and backward pass. `inputs` are the user inputs in the order
  // of TrainingInputNames(). `outputs` is null (nothing is returned) or
  // receives the user outputs; tensors that are in it already are reused
  // where their memory suffices. The first call after construction or
  // LazyResetGrad overwrites the gradients, later calls add to them. Throws
  // kTypeMismatch or kInvalidArgument where an input's type or shape is not
  // the model's, or shapes do not fit together. After an Error the gradients,
  // parameters and a pending reset are as before.
  void TrainStep(std::span<const Tensor> inputs,
                 std::vector<OwnedTensor>* outputs);
  // The same into memory of the caller, whose types and shapes must be those
  // of the outputs. `outputs` may be empty.
  void TrainStep(std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs);

  // The next TrainStep overwrites the gradients. Nothing else happens now.
  void LazyResetGrad();

  // One pass of the eval model; throws kFailedState if there is none.
  void EvalStep(std::span<const Tensor> inputs,
                std::vector<OwnedTensor>* outputs);
  void EvalStep(std::span<const Tensor> inputs,
                std::span<const Tensor> outputs);

  // User inputs and outputs in graph order; hidden ones (parameters,
  // gradients, reset flag) are left out. Empty without an eval model.
  const std::vector<std::string>& TrainingInputNames() const;
  const std::vector<std::string>& TrainingOutputNames() const;
  const std::vector<std::string>& EvalInputNames() const;
  const std::vector<std::string>& EvalOutputNames() const;

  // Declared element type and dimensions of a user input; -1 where a
  // dimension is symbolic or unknown. Empty dims with has_shape false: rank
  // unknown.
  struct InputInfo {
    std::string name;
    DataType type = DataType::kUndefined;
    bool has_shape = false;
    std::vector<int64_t> dims;
  };
  const std::vector<InputInfo>& TrainingInputs() const;
  const std::vector<InputInfo>& EvalInputs() const;

  // Elements of all parameters of the training graph, in the order of its
  // inputs; works on a nominal state.
  int64_t GetParametersSize(bool trainable_only = true) const;
  // Concatenates the parameters in the order of the training graph's inputs
  // into a float32 tensor of exactly GetParametersSize elements. Another
  // buffer throws kInvalidArgument, a parameter of another type
  // kTypeMismatch; a nominal
  // state kFailedState.
  void CopyParametersToBuffer(const Tensor& buffer,
                              bool trainable_only = true) const;
  // The inverse, with the same errors. On a nominal state `trainable_only`
  // must be false; the state then becomes complete.
  void CopyBufferToParameters(const Tensor& buffer, bool trainable_only = true);

  // Writes an inference model: the eval graph cut to `output_names` (any
  // values of it), with the current parameters as initializers. Throws
  // kFailedState without an eval model given as a path, kNotFound for an
  // unknown name.
  void ExportModelForInferencing(
      const std::filesystem::path& path,
      std::span<const std::string> output_names) const;

  CheckpointState& state() const;

  // The plan for the shapes of the last step of that kind, or for `inputs`:
  // steps, kernels, layouts, offsets, peak bytes, as text or JSON. Throws
  // kFailedState without inputs before the first step.
  enum class PlanFormat { kText, kJson };
  std::string DescribePlan(bool training, std::span<const Tensor> inputs,
                           PlanFormat format);

  // What enable_profiling collected, as a Chrome trace: JSON of one event for
  // each kernel and step. Throw kFailedState where it is off.
  std::string Profile() const;
  void WriteProfile(const std::filesystem::path& path) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
