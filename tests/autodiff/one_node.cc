// SPDX-License-Identifier: Apache-2.0
#include "autodiff/one_node.h"

#include <cmath>

#include "autodiff/differentiate.h"
#include "base/throw.h"
#include "passes/passes.h"

namespace strop {
namespace {

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64;
}

// Numbers between -1 and 1 that have nothing to do with each other.
double SeedAt(size_t i) {
  return 2 * std::fmod(0.7548776662 * static_cast<double>(i + 3), 1) - 1;
}

// float64 runs on the reference kernels, float32 on those of the CPU.
std::unique_ptr<Executor> ExecutorOf(Graph graph, DataType type) {
  ExecutorOptions options;
  if (type == DataType::kFloat32) options.providers = {CpuExecutionProvider()};
  return std::make_unique<Executor>(
      Lower(std::move(graph)), std::make_shared<Arena>(), std::move(options));
}

std::vector<Argument> ArgumentsOf(const std::vector<OwnedTensor>& tensors) {
  std::vector<Argument> arguments;
  for (const OwnedTensor& tensor : tensors)
    arguments.push_back({.tensor = tensor.view(), .list = {}});
  return arguments;
}

}  // namespace

OneNode BuildOneNode(const OpCase& op_case, DataType type, KnownShapes shapes,
                     std::optional<size_t> only_output) {
  OneNode built;
  Graph& graph = built.graph;
  // What the case's node gives, by running it alone.
  OpRun run(op_case, type);
  graph.opset_imports[""] = op_case.domain.empty() ? op_case.opset : 21;
  if (!op_case.domain.empty())
    graph.opset_imports[op_case.domain] = op_case.opset;
  Node node;
  node.name = "node";
  node.op_type = op_case.op;
  node.domain = op_case.domain;
  for (const auto& [name, value] : op_case.attributes)
    node.SetAttribute(name, value);
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (op_case.inputs[i].omitted) {
      node.inputs.push_back({});
      continue;
    }
    const Tensor& tensor = run.input(i);
    const std::string name = "input" + std::to_string(i);
    // Inputs that must be known by value, and integers, are constants.
    if (!IsFloat(tensor.type()) || run.op().value_inputs.contains(i)) {
      node.inputs.push_back(
          graph.AddInitializer(TensorData::Copy(name, tensor)));
      continue;
    }
    std::vector<Dimension> dims;
    for (const int64_t d : tensor.shape())
      dims.push_back({.value = d, .symbol = {}});
    const ValueId id = graph.AddInput(
        name,
        ValueType::OfTensor(tensor.type(), shapes == KnownShapes::kAll
                                               ? std::optional(std::move(dims))
                                               : std::nullopt));
    node.inputs.push_back(id);
    built.inputs.push_back(id);
    built.slots.push_back(i);
    built.values.emplace_back(tensor);
  }
  run.RunReference();
  size_t seed_at = 0;
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (!run.has_output(i)) {
      node.outputs.push_back({});
      continue;
    }
    const Tensor& tensor = run.output(i);
    const ValueId id =
        graph.AddValue("output" + std::to_string(i),
                       ValueType::OfTensor(tensor.type(), std::nullopt));
    node.outputs.push_back(id);
    if (!IsFloat(tensor.type())) continue;
    if (only_output.value_or(i) != i) continue;
    built.outputs.push_back(id);
    OwnedTensor seed(tensor.type(), tensor.shape());
    Numbers64 numbers = run.OutputValues(i);
    for (double& number : numbers) {
      built.leaves_out = built.leaves_out || !std::isfinite(number);
      number = std::isfinite(number) ? SeedAt(seed_at++) : 0;
    }
    FromNumbers(numbers, seed.view());
    built.seeds.push_back(std::move(seed));
  }
  graph.AddNode(std::move(node));
  return built;
}

SeededFunction::SeededFunction(const OneNode& built) : seeds_(built.seeds) {
  Graph graph = built.graph;
  graph.SetOutputs(built.outputs);
  executor_ = ExecutorOf(std::move(graph), DataType::kFloat64);
}

double SeededFunction::operator()(const std::vector<OwnedTensor>& values) {
  executor_->Run(ArgumentsOf(values), RandomKey{});
  long double sum = 0;
  magnitude_ = 0;
  for (size_t i = 0; i < seeds_.size(); ++i) {
    const Numbers64 y = ToNumbers(executor_->output(i));
    const Numbers64 seed = ToNumbers(seeds_[i].view());
    for (size_t k = 0; k < y.size(); ++k)
      if (seed[k] != 0) {
        sum += seed[k] * y[k];
        magnitude_ += std::abs(seed[k] * y[k]);
      }
  }
  return static_cast<double>(sum);
}

std::vector<Numbers64> GradientsOf(const OneNode& built, DataType type,
                                   std::optional<size_t> only_input) {
  Graph graph = built.graph;
  std::vector<ValueId> seeds;
  for (size_t i = 0; i < built.outputs.size(); ++i) {
    const Tensor& seed = built.seeds[i].view();
    seeds.push_back(
        graph.AddInput("seed" + std::to_string(i),
                       ValueType::OfTensor(seed.type(), std::nullopt)));
  }
  std::vector<ValueId> wrt = built.inputs;
  if (only_input) wrt = {built.inputs[*only_input]};
  std::vector<ValueId> gradients =
      Differentiate(graph, built.outputs, seeds, wrt);
  std::vector<ValueId> outputs;
  for (const ValueId id : gradients)
    if (id) outputs.push_back(id);
  graph.SetOutputs(outputs);
  graph.SortNodes();
  NamePoolShapes(graph);
  NamePeepholes(graph);
  RemoveDead(graph);
  const auto executor = ExecutorOf(std::move(graph), type);
  std::vector<Argument> arguments = ArgumentsOf(built.values);
  for (const Argument& seed : ArgumentsOf(built.seeds))
    arguments.push_back(seed);
  executor->Run(arguments, RandomKey{});
  if (only_input) {
    gradients.insert(gradients.begin(), *only_input, ValueId{});
    gradients.resize(built.inputs.size());
  }
  std::vector<Numbers64> results;
  size_t at = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) {
      results.emplace_back();
      continue;
    }
    const Tensor result = executor->output(at++);
    if (result.shape() != built.values[i].view().shape()) {
      Throw(ErrorCode::kInternal,
            "the gradient of input {} has shape {}, not {}", built.slots[i],
            result.shape().ToString(),
            built.values[i].view().shape().ToString());
    }
    results.push_back(ToNumbers(result));
  }
  return results;
}

}  // namespace strop
