// SPDX-License-Identifier: Apache-2.0
//
// What a CheckpointState holds. Parameters, gradients and moments rest in
// ONNX order, each kind in one 64-byte aligned block (TensorBlock), so that
// saving, sending, clipping and updating them is one pass.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "strop/op.h"
#include "strop/tensor.h"

namespace strop {

// Tensors side by side in one zeroed block of memory, each at a multiple of
// 64 bytes; gaps stay zero.
class TensorBlock {
 public:
  TensorBlock() = default;
  explicit TensorBlock(const std::vector<TensorInfo>& tensors);

  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  OwnedTensor memory_;
  std::vector<Tensor> tensors_;
};

struct Parameter {
  std::string name;
  bool requires_grad = false;
  // In the store's block. While the state is nominal data() is null, and type
  // and shape are those of a placeholder.
  Tensor value;
  // In the gradient block; type kUndefined until a Module attaches it.
  Tensor gradient;
};

// Moments of one parameter by momentum name ("momentum0", ...).
using Moments = std::map<std::string, Tensor, std::less<>>;

struct OptimizerGroup {
  int64_t step = 0;
  float initial_learning_rate = 0.001f;
  float learning_rate = 0.001f;
  std::map<std::string, Moments, std::less<>> parameters;
  // Owners of the moments: whole blocks, or single tensors from a file.
  std::vector<TensorBlock> blocks;
};

// Properties that Strop keeps for itself: where a run goes on from. They are
// not listed, and are saved together with the optimizer state only.
inline bool IsHiddenProperty(std::string_view name) {
  return name.starts_with("strop.");
}

struct ParameterStore {
  explicit ParameterStore(const Environment& environment)
      : environment(&environment) {}

  const Environment* environment;
  std::vector<Parameter> parameters;  // ascending names
  std::map<std::string, OptimizerGroup, std::less<>> groups;
  std::map<std::string, Property, std::less<>> properties;
  bool is_nominal = false;
  bool has_external_data = false;

  Parameter* Find(std::string_view name);  // null if unknown
  Parameter& Get(std::string_view name);   // throws kNotFound
  // Throws kFailedState with ONNX Runtime's "Please load the model
  // parameters first." while nominal.
  void RequireValues(std::string_view what) const;

  // Allocates zeroed values for a nominal state, which is complete then;
  // infos in the order of parameters, kUndefined for one that gets no value.
  void AllocateValues(const std::vector<TensorInfo>& infos);
  // Gives each trainable parameter a zeroed gradient, unless it has one.
  void AttachGradients();

  TensorBlock values;     // owner of Parameter::value
  TensorBlock gradients;  // owner of Parameter::gradient
};

}  // namespace strop
