// SPDX-License-Identifier: Apache-2.0
#include "training/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/arrays.h"

namespace strop::golden {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::filesystem::path GoldenFolder() {
  return std::filesystem::path(STROP_TEST_DATA) / "golden";
}

// Ten times the noise of the case, where that is more than the limit.
Limits LimitsFor(const nlohmann::json& recipe) {
  Limits limits;
  if (!recipe.contains("noise")) return limits;
  for (const nlohmann::json& noise : recipe.at("noise")) {
    auto widen = [&](const char* what, double& limit) {
      limit = std::max(limit, 10 * noise.value(what, 0.0));
    };
    widen("loss", limits.loss);
    widen("loss", limits.output);
    widen("grad", limits.gradient);
    widen("param", limits.parameter);
  }
  return limits;
}

// Row `step` of an array whose first axis is the step.
Tensor Row(const Tensor& array, int64_t step) {
  const Shape shape(array.shape().dims().subspan(1));
  const size_t bytes =
      static_cast<size_t>(shape.element_count()) * DataTypeSize(array.type());
  return Tensor(array.type(), shape,
                static_cast<std::byte*>(array.data()) +
                    static_cast<size_t>(step) * bytes);
}

std::string Digits(int64_t step) { return fmt::format("{:04}", step); }

std::vector<double> AsDoubles(const Tensor& tensor) {
  std::vector<double> values;
  const bool known = DispatchType(Numbers{}, tensor.type(), [&]<class T>() {
    for (T x : tensor.values<T>()) {
      values.push_back(static_cast<double>(x));
    }
  });
  if (!known) throw std::runtime_error("element type is not a number");
  return values;
}

}  // namespace

Case::Case(const std::string& name)
    : name_(name), folder_(GoldenFolder() / name) {
  const auto files = FileSystem::Default();
  inputs_ = data::ReadNpz(folder_ / "inputs.npz", *files);
  expected_ = data::ReadNpz(folder_ / "expected.npz", *files);
  const nlohmann::json recipe =
      nlohmann::json::parse(std::ifstream(folder_ / "recipe.json"));
  train_steps_ = recipe.at("train_steps");
  resume_train_steps_ = recipe.value("resume_train_steps", int64_t{0});
  accumulation_ = recipe.at("gradient_accumulation");
  learning_rate_ = recipe.at("lr");
  if (const auto& schedule = recipe.at("schedule"); !schedule.is_null()) {
    schedule_ = {schedule.at("warmup"), schedule.at("total")};
  }
  for (const auto& [key, value] : ExpectedUnder("inference")) {
    model_outputs_.push_back(key);
  }
  limits_ = LimitsFor(recipe);
}

ModelIdentifiers Case::models() const {
  if (!artifacts_.empty()) {
    return {.train = artifact("training_model.onnx"),
            .eval = artifact("eval_model.onnx"),
            .optimizer = artifact("optimizer_model.onnx")};
  }
  // ORT's own eval model of some cases is malformed.
  const auto fixed = file("eval_model_fixed.onnx");
  return {
      .train = file("training_model.onnx"),
      .eval = std::filesystem::exists(fixed) ? fixed : file("eval_model.onnx"),
      .optimizer = file("optimizer_model.onnx")};
}

std::vector<Tensor> Case::Batch(int64_t step,
                                const std::vector<std::string>& names) const {
  std::vector<Tensor> batch;
  for (const std::string& name : names) {
    const auto all = inputs_.find(name);
    batch.push_back(all != inputs_.end()
                        ? Row(all->second, step)
                        : inputs_.at(name + "/" + Digits(step)).view());
  }
  return batch;
}

std::vector<Tensor> Case::EvalBatch(
    const std::vector<std::string>& names) const {
  std::vector<Tensor> batch;
  for (const std::string& name : names) {
    batch.push_back(inputs_.at("eval/" + name));
  }
  return batch;
}

const Tensor& Case::Expected(const std::string& key) const {
  return expected_.at(key).view();
}

std::map<std::string, Tensor> Case::ExpectedUnder(
    const std::string& prefix) const {
  std::map<std::string, Tensor> found;
  for (const auto& [key, value] : expected_) {
    if (key.starts_with(prefix + "/")) {
      found.emplace(key.substr(prefix.size() + 1), value.view());
    }
  }
  return found;
}

TrainingRun::TrainingRun(const Case& golden, const std::string& checkpoint,
                         int threads, const SessionOptions& options)
    : golden_(golden),
      environment_({.num_threads = threads, .log = {}, .files = {}}),
      state_(CheckpointState::Load(golden.artifact(checkpoint), environment_)),
      module_(std::make_unique<Module>(golden.models(), &state_, options,
                                       environment_)),
      optimizer_(std::make_shared<Optimizer>(golden.models(), &state_, options,
                                             environment_)) {
  if (!state_.is_nominal()) {
    optimizer_->SetLearningRate(golden.learning_rate());
  }
  if (const auto schedule = golden.schedule()) {
    optimizer_->SetInitialLearningRate(golden.learning_rate());
    scheduler_ = std::make_unique<LinearLRScheduler>(
        optimizer_, schedule->first, schedule->second);
  }
}

void TrainingRun::Train(int64_t first, int64_t last, const Hooks& hooks) {
  for (int64_t i = first; i < last; ++i) {
    module_->TrainStep(golden_.Batch(i, module_->TrainingInputNames()),
                       &outputs_);
    losses_.push_back(outputs_.at(0).values<float>()[0]);
    if (hooks.after_train) hooks.after_train(i - first);
    if ((i - first + 1) % golden_.accumulation() != 0) continue;
    rates_.push_back(optimizer_->GetLearningRate());
    optimizer_->Step();
    if (scheduler_) scheduler_->Step();
    module_->LazyResetGrad();
    if (hooks.after_optimizer) hooks.after_optimizer(i - first);
  }
}

std::vector<OwnedTensor> TrainingRun::Evaluate() {
  std::vector<OwnedTensor> outputs;
  module_->EvalStep(golden_.EvalBatch(module_->EvalInputNames()), &outputs);
  return outputs;
}

Named TrainingRun::Parameters() const {
  Named values;
  for (const std::string& name : state_.ParameterNames()) {
    values.emplace(name, OwnedTensor(state_.ParameterValue(name)));
  }
  return values;
}

Named TrainingRun::Gradients() const {
  Named values;
  for (const std::string& name : state_.ParameterNames()) {
    if (const auto gradient = state_.Gradient(name)) {
      values.emplace(name, OwnedTensor(*gradient));
    }
  }
  return values;
}

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  for (double x : AsDoubles(tensor)) largest = std::max(largest, std::abs(x));
  return largest;
}

double Difference(const Tensor& expected, const Tensor& actual,
                  double least_magnitude) {
  if (expected.type() != actual.type() ||
      !(expected.shape() == actual.shape())) {
    return kInfinity;
  }
  const std::vector<double> wanted = AsDoubles(expected);
  const std::vector<double> given = AsDoubles(actual);
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == given[i]) continue;
    const double difference = std::abs(wanted[i] - given[i]);
    if (std::isnan(difference)) return kInfinity;
    largest = std::max(largest, difference);
  }
  const double magnitude =
      std::max({LargestMagnitude(expected), least_magnitude, 1e-30});
  return largest / magnitude;
}

double Difference(const std::map<std::string, Tensor>& expected,
                  const Named& actual) {
  if (expected.size() != actual.size()) return kInfinity;
  double magnitude = 0;
  for (const auto& [name, tensor] : expected) {
    magnitude = std::max(magnitude, LargestMagnitude(tensor));
  }
  double largest = 0;
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return kInfinity;
    largest =
        std::max(largest, Difference(tensor, found->second, magnitude / 1000));
  }
  return largest;
}

}  // namespace strop::golden
