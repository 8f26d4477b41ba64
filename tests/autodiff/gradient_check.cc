// SPDX-License-Identifier: Apache-2.0
#include "autodiff/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autodiff/differentiate.h"
#include "base/throw.h"
#include "passes/passes.h"
#include "runtime/executor.h"

namespace strop {
namespace {

constexpr double kTolerance = 1e-6;
// Left and right derivatives further apart than this: a kink or a jump.
constexpr double kKink = 1e-4;
// Elements of an input that are compared; more are left out evenly.
constexpr size_t kMostElements = 48;

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64;
}

// A graph of one node. Float inputs are graph inputs, all others constants.
struct OneNode {
  Graph graph;
  std::vector<ValueId> inputs;   // float inputs
  std::vector<size_t> slots;     // their positions in the node
  std::vector<ValueId> outputs;  // float outputs
  std::vector<OwnedTensor> values, seeds;
};

// Numbers between -1 and 1 that have nothing to do with each other.
double SeedAt(size_t i) {
  return 2 * std::fmod(0.7548776662 * static_cast<double>(i + 3), 1) - 1;
}

OneNode Build(const OpCase& op_case, DataType type, KnownShapes shapes,
              bool first_output_only = false) {
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
    if (first_output_only && !built.outputs.empty()) continue;
    built.outputs.push_back(id);
    OwnedTensor seed(tensor.type(), tensor.shape());
    Numbers64 numbers;
    for (int64_t k = 0; k < tensor.element_count(); ++k)
      numbers.push_back(SeedAt(seed_at++));
    FromNumbers(numbers, seed.view());
    built.seeds.push_back(std::move(seed));
  }
  graph.AddNode(std::move(node));
  return built;
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

// sum over outputs of <seed, output>
class Function {
 public:
  explicit Function(const OneNode& built) : seeds_(built.seeds) {
    Graph graph = built.graph;
    graph.SetOutputs(built.outputs);
    executor_ = ExecutorOf(std::move(graph), DataType::kFloat64);
  }

  double operator()(const std::vector<OwnedTensor>& values) {
    executor_->Run(ArgumentsOf(values), RandomKey{});
    long double sum = 0;
    for (size_t i = 0; i < seeds_.size(); ++i) {
      const Numbers64 y = ToNumbers(executor_->output(i));
      const Numbers64 seed = ToNumbers(seeds_[i].view());
      for (size_t k = 0; k < y.size(); ++k) sum += seed[k] * y[k];
    }
    return static_cast<double>(sum);
  }

 private:
  const std::vector<OwnedTensor>& seeds_;
  std::unique_ptr<Executor> executor_;
};

std::vector<Numbers64> Gradients(const OneNode& built,
                                 DataType type = DataType::kFloat64) {
  Graph graph = built.graph;
  std::vector<ValueId> seeds;
  for (size_t i = 0; i < built.outputs.size(); ++i) {
    const Tensor& seed = built.seeds[i].view();
    seeds.push_back(
        graph.AddInput("seed" + std::to_string(i),
                       ValueType::OfTensor(seed.type(), std::nullopt)));
  }
  const std::vector<ValueId> gradients =
      Differentiate(graph, built.outputs, seeds, built.inputs);
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

// The derivative of f by one element, from both sides, and by a formula of
// fourth order.
struct Slopes {
  double left, right, middle;
};

Slopes Differences(Function& f, std::vector<OwnedTensor>& values, size_t input,
                   size_t element, double relative_step) {
  double& x = values[input].view().values<double>()[element];
  const double at = x;
  const double h = relative_step * std::max(0.01, std::abs(at));
  const auto value = [&](double steps) {
    x = at + steps * h;
    const double y = f(values);
    x = at;
    return y;
  };
  const double up = value(1), down = value(-1), here = value(0);
  const double up2 = value(2), down2 = value(-2);
  return {.left = (3 * here - 4 * down + down2) / (2 * h),
          .right = (-3 * here + 4 * up - up2) / (2 * h),
          .middle = (8 * (up - down) - (up2 - down2)) / (12 * h)};
}

enum class Verdict { kAgrees, kAtKink, kDiffers };

// Where the function itself is not finite there is nothing to compare with.
Verdict Compare(double gradient, double largest, const Slopes& d) {
  if (!std::isfinite(d.left) || !std::isfinite(d.right))
    return Verdict::kAgrees;
  const double slack = kTolerance * std::max(largest, std::abs(d.middle));
  if (std::abs(gradient - d.middle) <= slack) return Verdict::kAgrees;
  const double room = kKink * std::max(1.0, largest);
  const bool smooth = std::abs(d.left - d.right) <= room;
  const bool between = gradient >= std::min(d.left, d.right) - room &&
                       gradient <= std::max(d.left, d.right) + room;
  return !smooth && between ? Verdict::kAtKink : Verdict::kDiffers;
}

}  // namespace

std::vector<Numbers64> GradientsOf(const OpCase& op_case, DataType type,
                                   KnownShapes shapes) {
  return Gradients(Build(op_case, type, shapes), type);
}

GradientCheck CheckGradient(const OpCase& op_case, KnownShapes shapes,
                            bool may_jump) {
  GradientCheck check;
  OneNode built = Build(op_case, DataType::kFloat64, shapes);
  std::vector<Numbers64> gradients;
  try {
    gradients = Gradients(built);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.find("for its first output") == std::string_view::npos) throw;
    built = Build(op_case, DataType::kFloat64, shapes,
                  /*first_output_only=*/true);
    gradients = Gradients(built);
  }
  Function f(built);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].empty()) check.has_gradient = true;
    if (built.values[i].view().type() != DataType::kFloat64) continue;
    double largest = 1;
    for (const double g : gradients[i])
      if (std::isfinite(g)) largest = std::max(largest, std::abs(g));
    const size_t count = gradients[i].size();
    const size_t step = std::max<size_t>(1, count / kMostElements);
    for (size_t k = 0; k < count; k += step) {
      const double g = gradients[i][k];
      const auto compare = [&](double relative_step) {
        return Compare(g, largest,
                       Differences(f, built.values, i, k, relative_step));
      };
      // At a jump differences grow as steps shrink.
      const auto jumps = [&] {
        const auto middle = [&](double relative_step) {
          return std::abs(
              Differences(f, built.values, i, k, relative_step).middle);
        };
        return middle(1e-6) > 50 * std::max(1.0, middle(1e-4));
      };
      Verdict verdict = compare(1e-4);
      // Closer, where something changes nearby.
      if (verdict == Verdict::kDiffers) verdict = compare(1e-6);
      if (may_jump && verdict == Verdict::kDiffers && jumps())
        verdict = Verdict::kAtKink;
      ++check.compared;
      if (verdict == Verdict::kAtKink) ++check.at_kinks;
      if (verdict == Verdict::kDiffers && check.failure.empty()) {
        const Slopes d = Differences(f, built.values, i, k, 1e-4);
        check.failure = fmt::format(
            "input {}, element {}: {} where differences give {} (left {}, "
            "right {})",
            built.slots[i], k, g, d.middle, d.left, d.right);
      }
    }
  }
  return check;
}

}  // namespace strop
