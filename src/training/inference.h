// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strop/module.h"

namespace strop {

// A plain model: inputs in, outputs out. For exported models, in tests and in
// the command line.
class Inference {
 public:
  Inference(
      const ModelSource& model, const SessionOptions& options,
      const Environment& environment,
      const std::vector<std::shared_ptr<ExecutionProvider>>& providers = {},
      std::span<const CustomOpDomain* const> custom_ops = {});
  ~Inference();

  // Inputs without a default value, in graph order.
  const std::vector<Module::InputInfo>& inputs() const;
  const std::vector<std::string>& output_names() const;

  // Tensors in `outputs` are reused where their memory suffices.
  void Run(std::span<const Tensor> inputs, std::vector<OwnedTensor>* outputs);

  // The plan for `inputs`, of which only type and shape are looked at.
  std::string DescribePlan(std::span<const Tensor> inputs,
                           Module::PlanFormat format);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
