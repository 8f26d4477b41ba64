// SPDX-License-Identifier: Apache-2.0
//
// A graph that is run step by step. Its inputs are of two kinds: bound ones,
// whose memory stays the same from step to step (parameters, gradients), and
// user inputs, which the caller gives with each step and which are checked
// against what the graph declares.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/executor.h"
#include "strop/module.h"
#include "training/session.h"

namespace strop {

// Where the outputs of a step go: a vector that is filled, memory of the
// caller, or nowhere.
struct StepOutputs {
  std::vector<OwnedTensor>* owned = nullptr;
  std::span<const Tensor> given = {};
};

class BoundGraph {
 public:
  // Only a training graph updates running statistics.
  enum class Statistics { kUpdate, kKeep };

  // Specializes and lowers `graph`. `user_inputs` are positions among its
  // inputs; `title` is how errors speak of a step ("TrainStep").
  BoundGraph(std::string title, Graph graph,
             const std::vector<size_t>& user_inputs, Statistics statistics,
             const Session& session);

  const std::vector<Module::InputInfo>& inputs() const { return infos_; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  bool draws_random_numbers() const { return draws_random_numbers_; }
  // Positions of the inputs that a run writes into.
  const std::vector<size_t>& written_inputs() const { return written_inputs_; }

  void Bind(size_t input, const Tensor& tensor) {
    arguments_[input].tensor = tensor;
  }
  // The tensors must live as long as the graph runs.
  void BindList(size_t input, std::span<const Tensor> tensors) {
    arguments_[input].list = tensors;
  }

  // Checks `inputs` and `outputs` and runs one step. An Error leaves bound
  // inputs as they were. With `fail_if_not_finite` the step throws kNonFinite
  // where output 0 is infinite or not a number.
  void Run(std::span<const Tensor> inputs, const StepOutputs& outputs,
           const RandomKey& random, bool fail_if_not_finite = false);

  // Output i of the last Run, valid until the next Run of the session.
  Tensor output(size_t i) const { return executor_->output(i); }

  // The plan for these user inputs, of which only type and shape are looked
  // at; without any, for those of the last step.
  const Plan& PlanFor(std::span<const Tensor> inputs);

 private:
  // What a dimension of a user input must be: a number, or the size of a
  // dimension of an earlier input that has the same symbol.
  struct DimensionRule {
    int64_t value = -1;
    int same_input = -1;
    size_t same_axis = 0;
  };

  void DescribeUserInput(size_t position);
  DimensionRule RuleFor(const std::string& symbol) const;
  void CheckInputs(std::span<const Tensor> inputs, bool need_data) const;
  void CheckInput(size_t i, std::span<const Tensor> inputs) const;
  [[noreturn]] void FailInput(size_t i, const Tensor& given) const;
  void PrepareOutputs(const StepOutputs& outputs) const;
  void CopyOutputs(const StepOutputs& outputs) const;
  void CheckFinite() const;

  std::string title_;
  std::vector<size_t> user_inputs_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<Module::InputInfo> infos_;               // of user inputs
  std::vector<std::vector<DimensionRule>> rules_;      // of user inputs
  std::vector<std::vector<std::string>> dim_symbols_;  // of user inputs
  std::vector<Argument> arguments_;                    // of all graph inputs
  std::vector<size_t> written_inputs_;
  bool draws_random_numbers_ = false;
  bool has_run_ = false;
  std::unique_ptr<Executor> executor_;
};

}  // namespace strop
