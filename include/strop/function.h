// SPDX-License-Identifier: Apache-2.0
//
// A model as a function: its outputs, and gradients of them.
//
//   strop::Function saliency("model.onnx", {.wrt = {"image"}}, {},
//   environment); std::vector<strop::OwnedTensor> outputs, gradients;
//   saliency.Run(inputs, &outputs, &gradients);
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strop/environment.h"
#include "strop/op.h"
#include "strop/platform.h"
#include "strop/session_options.h"
#include "strop/tensor.h"

namespace strop {

struct FunctionOptions {
  // Values to return, outputs or any others; none: the model's outputs.
  std::vector<std::string> outputs = {};
  // Values to differentiate by: inputs, parameters or any others of a float
  // type.
  std::vector<std::string> wrt = {};
  // The output that is differentiated; empty: the first. What is differentiated
  // is the sum of its elements, or with `seeded` the sum of their products
  // with those of a further, last input of its type and shape.
  std::string of = {};
  bool seeded = false;
};

class STROP_EXPORT Function {
 public:
  // The model means what it says: a Dropout or BatchNormalization is not
  // switched to training. Throws kNotFound for an unknown name,
  // kInvalidArgument where a value has no float type or `of` does not depend
  // on it, and kNotImplemented naming every node without a gradient.
  Function(const ModelSource& model, const FunctionOptions& options,
           const SessionOptions& session, const Environment& environment,
           std::span<const CustomOpDomain* const> custom_ops = {});
  ~Function();
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  // Inputs in the order of the model, without initializers; a seed is last
  // and called <output>_seed.
  const std::vector<std::string>& InputNames() const;
  const std::vector<std::string>& OutputNames() const;

  // `gradients`, in the order of `wrt`, may be null where there are none.
  // Throws kTypeMismatch or kInvalidArgument for other inputs than the model
  // wants. Not thread-safe.
  void Run(std::span<const Tensor> inputs, std::vector<OwnedTensor>* outputs,
           std::vector<OwnedTensor>* gradients = nullptr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
