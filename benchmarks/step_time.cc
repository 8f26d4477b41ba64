// SPDX-License-Identifier: Apache-2.0
//
// Time of one training step (train step, optimizer step, gradient reset) of
// an artifact folder on random data:
//
//   step_time DIR [--batch N] [--steps N] [--threads N] [--classes N]
//
// Prints best and median milliseconds, and the first loss. Symbolic
// dimensions become the batch size.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "strop/strop.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::filesystem::path folder;
  int64_t batch = 32;
  int64_t classes = 10;
  int steps = 1000;
  int threads = 1;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--batch" && has_value) {
      arguments.batch = std::atoll(argv[++i]);
    } else if (word == "--steps" && has_value) {
      arguments.steps = std::atoi(argv[++i]);
    } else if (word == "--threads" && has_value) {
      arguments.threads = std::atoi(argv[++i]);
    } else if (word == "--classes" && has_value) {
      arguments.classes = std::atoll(argv[++i]);
    } else {
      arguments.folder = word;
    }
  }
  return arguments;
}

strop::OwnedTensor MakeInput(const strop::Module::InputInfo& info,
                             const Arguments& arguments, std::mt19937& random) {
  std::vector<int64_t> dims = info.dims;
  for (int64_t& dim : dims) {
    if (dim < 0) dim = arguments.batch;
  }
  strop::OwnedTensor tensor(info.type, strop::Shape(dims));
  if (info.type == strop::DataType::kFloat32) {
    std::uniform_real_distribution<float> uniform(0, 1);
    for (float& x : tensor.values<float>()) x = uniform(random);
  } else if (info.type == strop::DataType::kInt64) {
    std::uniform_int_distribution<int64_t> label(0, arguments.classes - 1);
    for (int64_t& x : tensor.values<int64_t>()) x = label(random);
  }
  return tensor;
}

int Run(const Arguments& arguments) {
  strop::Environment environment(
      {.num_threads = arguments.threads, .log = {}, .files = nullptr});
  auto state = strop::CheckpointState::Load(arguments.folder / "checkpoint",
                                            environment);
  const strop::ModelIdentifiers models = {
      .train = arguments.folder / "training_model.onnx",
      .eval = std::nullopt,
      .optimizer = arguments.folder / "optimizer_model.onnx"};
  strop::SessionOptions options;
  options.num_threads = arguments.threads;
  strop::Module module(models, &state, options, environment);
  strop::Optimizer optimizer(models, &state, options, environment);

  std::mt19937 random(1);
  std::vector<strop::OwnedTensor> inputs;
  for (const auto& info : module.TrainingInputs()) {
    inputs.push_back(MakeInput(info, arguments, random));
  }
  const std::vector<strop::Tensor> views(inputs.begin(), inputs.end());
  std::vector<strop::OwnedTensor> outputs;
  std::vector<double> times;
  float first_loss = 0;
  for (int step = 0; step < arguments.steps; ++step) {
    const auto start = Clock::now();
    module.TrainStep(views, &outputs);
    optimizer.Step();
    module.LazyResetGrad();
    const std::chrono::duration<double, std::milli> time = Clock::now() - start;
    times.push_back(time.count());
    if (step == 0) first_loss = outputs[0].values<float>()[0];
  }
  std::sort(times.begin(), times.end());
  std::printf("best_ms %.5f median_ms %.5f first_loss %.6f\n", times.front(),
              times[times.size() / 2], static_cast<double>(first_loss));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(Parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_time: %s\n", error.what());
    return 1;
  }
}
