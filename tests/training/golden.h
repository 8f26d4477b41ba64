// SPDX-License-Identifier: Apache-2.0
//
// The golden cases of tests/data/golden: artifacts that ONNX Runtime made,
// and the numbers of complete runs with them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strop/strop.h"

namespace strop::golden {

using Arrays = std::map<std::string, OwnedTensor, std::less<>>;
// Tensors of one kind by parameter or output name.
using Named = std::map<std::string, OwnedTensor, std::less<>>;

// Largest differences that count as equal: tests/data/golden/README.md, "How
// to compare".
struct Limits {
  double loss = 5e-6;
  double output = 1e-5;
  double gradient = 2e-5;
  double parameter = 5e-5;
};

class Case {
 public:
  explicit Case(const std::string& name);

  std::filesystem::path file(const std::string& name) const {
    return folder_ / name;
  }
  ModelIdentifiers models() const;
  // Runs take models and checkpoint from this folder instead.
  void UseArtifacts(std::filesystem::path folder) {
    artifacts_ = std::move(folder);
  }
  std::filesystem::path artifact(const std::string& name) const {
    return (artifacts_.empty() ? folder_ : artifacts_) / name;
  }

  const std::string& name() const { return name_; }
  int64_t train_steps() const { return train_steps_; }
  int64_t resume_train_steps() const { return resume_train_steps_; }
  int64_t accumulation() const { return accumulation_; }
  float learning_rate() const { return learning_rate_; }
  // Warm-up and total counts of the linear schedule.
  std::optional<std::pair<int64_t, int64_t>> schedule() const {
    return schedule_;
  }
  const std::vector<std::string>& model_outputs() const {
    return model_outputs_;
  }
  const Limits& limits() const { return limits_; }

  // The batch of a train step, one tensor for each of `names`.
  std::vector<Tensor> Batch(int64_t step,
                            const std::vector<std::string>& names) const;
  std::vector<Tensor> EvalBatch(const std::vector<std::string>& names) const;

  bool Has(const std::string& key) const { return expected_.contains(key); }
  // An array of expected.npz.
  const Tensor& Expected(const std::string& key) const;
  // Those whose key is `prefix`/NAME, by NAME.
  std::map<std::string, Tensor> ExpectedUnder(const std::string& prefix) const;

 private:
  std::string name_;
  std::filesystem::path folder_, artifacts_;
  Arrays inputs_, expected_;
  int64_t train_steps_ = 0, resume_train_steps_ = 0, accumulation_ = 1;
  float learning_rate_ = 0;
  std::optional<std::pair<int64_t, int64_t>> schedule_;
  std::vector<std::string> model_outputs_;
  Limits limits_;
};

// Called with the number of the step in this run.
struct Hooks {
  std::function<void(int64_t step)> after_train = nullptr;
  std::function<void(int64_t step)> after_optimizer = nullptr;
};

// The objects of one run, made as the goldens were.
class TrainingRun {
 public:
  TrainingRun(const Case& golden, const std::string& checkpoint, int threads,
              const SessionOptions& options = {});

  // One train step for each batch in [first, last), with optimizer step,
  // schedule and lazy reset after every `accumulation` of them.
  void Train(int64_t first, int64_t last, const Hooks& hooks = {});
  std::vector<OwnedTensor> Evaluate();

  Named Parameters() const;
  Named Gradients() const;

  const std::vector<float>& losses() const { return losses_; }
  const std::vector<float>& rates() const { return rates_; }
  // Of the last train step.
  const std::vector<OwnedTensor>& outputs() const { return outputs_; }

  Environment& environment() { return environment_; }
  CheckpointState& state() { return state_; }
  Module& module() { return *module_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  const Case& golden_;
  Environment environment_;
  CheckpointState state_;
  std::unique_ptr<Module> module_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<LinearLRScheduler> scheduler_;
  std::vector<OwnedTensor> outputs_;
  std::vector<float> losses_, rates_;
};

// Largest absolute difference over the largest magnitude of `expected`, which
// counts as at least `least_magnitude`. Infinite where type, shape or the
// places of NaN differ.
double Difference(const Tensor& expected, const Tensor& actual,
                  double least_magnitude = 0);
double LargestMagnitude(const Tensor& tensor);

// The largest difference of tensors of the same names, measured against at
// least a thousandth of the largest magnitude of all; infinite where names
// differ.
double Difference(const std::map<std::string, Tensor>& expected,
                  const Named& actual);

}  // namespace strop::golden
