// SPDX-License-Identifier: Apache-2.0
#include "artifacts/model_check.h"

#include <algorithm>
#include <cmath>

#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "graph/onnx_io.h"
#include "ops/op_runner.h"

namespace strop {
namespace {

Numbers64 SpreadNumbers(size_t count, size_t seed) {
  Numbers64 values;
  for (size_t i = 0; i < count; ++i) {
    const double at = static_cast<double>(i + 31 * seed + 1);
    values.push_back(2 * std::fmod(0.6180339887498949 * at, 1) - 1);
  }
  return values;
}

size_t CountOf(const std::vector<int64_t>& dims) {
  size_t count = 1;
  for (const int64_t d : dims) count *= static_cast<size_t>(d);
  return count;
}

}  // namespace

Feed Spread(std::vector<int64_t> dims, int seed) {
  const size_t count = CountOf(dims);
  return {std::move(dims), SpreadNumbers(count, static_cast<size_t>(seed))};
}

ModelBuilder::ModelBuilder(int64_t opset) {
  model_.ir_version = 8;
  model_.opset_imports = {{"", opset}};
  model_.graph.name = "test";
  model_.graph.opset_imports[""] = opset;
  model_.graph.file_spelling = true;
}

std::string ModelBuilder::Input(const std::string& name,
                                std::vector<int64_t> dims, DataType type) {
  std::vector<Dimension> declared;
  for (const int64_t d : dims) {
    if (d >= 0) {
      declared.push_back({.value = d, .symbol = {}});
    } else {
      declared.push_back(
          {.value = std::nullopt,
           .symbol = d == -1 ? "batch" : fmt::format("d{}", -d)});
    }
  }
  model_.graph.AddInput(name, ValueType::OfTensor(type, std::move(declared)));
  return name;
}

std::string ModelBuilder::Parameter(const std::string& name,
                                    std::vector<int64_t> dims) {
  const size_t seed = model_.graph.initializers().size() + 3;
  const Numbers64 values = SpreadNumbers(CountOf(dims), seed);
  return Constant(name, std::move(dims), values);
}

std::string ModelBuilder::Constant(const std::string& name,
                                   std::vector<int64_t> dims,
                                   const Numbers64& values, DataType type) {
  const OwnedTensor tensor(type, Shape(dims));
  FromNumbers(values, tensor.view());
  model_.graph.AddInitializer(TensorData::Copy(name, tensor.view()));
  return name;
}

std::string ModelBuilder::Op(
    const std::string& op_type, const std::vector<std::string>& inputs,
    const std::string& output,
    const std::vector<std::pair<std::string, Attribute::Value>>& attributes) {
  Ops(op_type, inputs, {output}, attributes);
  return output;
}

void ModelBuilder::Ops(
    const std::string& op_type, const std::vector<std::string>& inputs,
    const std::vector<std::string>& outputs,
    const std::vector<std::pair<std::string, Attribute::Value>>& attributes) {
  Node node;
  node.op_type = op_type;
  node.name = outputs[0];
  for (const std::string& input : inputs)
    node.inputs.push_back(input.empty() ? ValueId{} : model_.graph.Find(input));
  for (const std::string& output : outputs)
    node.outputs.push_back(model_.graph.AddValue(output));
  for (const auto& [name, value] : attributes) node.SetAttribute(name, value);
  model_.graph.AddNode(std::move(node));
}

void ModelBuilder::Output(const std::string& name) {
  Graph& graph = model_.graph;
  const ValueId id = graph.Find(name);
  if (graph.value(id).type.kind == ValueType::Kind::kUnknown)
    graph.value(id).type =
        ValueType::OfTensor(DataType::kFloat64, std::nullopt);
  graph.MarkOutput(id);
}

std::string ModelBuilder::ConstantNode(const std::string& name,
                                       std::vector<int64_t> dims,
                                       const Numbers64& values, DataType type) {
  const OwnedTensor tensor(type, Shape(dims));
  FromNumbers(values, tensor.view());
  return Op("Constant", {}, name,
            {{"value", TensorData::Copy("", tensor.view())}});
}

std::string ModelBuilder::Encode() const { return EncodeOnnx(model_); }

PreparedModel::PreparedModel(const std::string& onnx,
                             const ArtifactOptions& options,
                             SessionOptions session) {
  session.config.emplace("strop.fill_memory_with_nan", "1");
  EncodedArtifacts encoded =
      EncodeArtifacts(std::as_bytes(std::span(onnx)), options, environment_);
  report_ = encoded.report;
  const SerializedCheckpoint checkpoint =
      SerializeCheckpoint(encoded.store, false);
  state_ = std::make_unique<CheckpointState>(
      CheckpointState::LoadFromBuffer(checkpoint.bytes, environment_));
  for (EncodedModel& file : encoded.models)
    bytes_.push_back(std::move(file.bytes));
  const auto bytes = [&](size_t i) {
    return ModelSource(std::as_bytes(std::span(bytes_[i])));
  };
  ModelIdentifiers models = {
      .train = bytes(0), .eval = bytes(1), .optimizer = std::nullopt};
  if (bytes_.size() > 2) models.optimizer = bytes(2);
  module_ =
      std::make_unique<Module>(models, state_.get(), session, environment_);
  if (models.optimizer) {
    optimizer_ = std::make_unique<Optimizer>(models, state_.get(), session,
                                             environment_);
  }
}

std::vector<OwnedTensor> PreparedModel::Inputs(
    const std::map<std::string, Feed>& feeds,
    const std::vector<Module::InputInfo>& infos) {
  std::vector<OwnedTensor> inputs;
  for (const Module::InputInfo& info : infos) {
    const Feed& feed = feeds.at(info.name);
    inputs.emplace_back(info.type, Shape(feed.dims));
    FromNumbers(feed.values, inputs.back().view());
  }
  return inputs;
}

std::vector<Numbers64> PreparedModel::Train(
    const std::map<std::string, Feed>& feeds) {
  const auto inputs = Inputs(feeds, module_->TrainingInputs());
  std::vector<OwnedTensor> outputs;
  const std::vector<Tensor> views(inputs.begin(), inputs.end());
  module_->TrainStep(views, &outputs);
  std::vector<Numbers64> numbers;
  for (const OwnedTensor& output : outputs)
    numbers.push_back(ToNumbers(output.view()));
  return numbers;
}

std::string PreparedModel::Plan(const std::map<std::string, Feed>& feeds) {
  const auto inputs = Inputs(feeds, module_->TrainingInputs());
  const std::vector<Tensor> views(inputs.begin(), inputs.end());
  return module_->DescribePlan(true, views, Module::PlanFormat::kJson);
}

size_t PreparedModel::PeakBytes(const std::map<std::string, Feed>& feeds) {
  const std::string plan = Plan(feeds);
  constexpr std::string_view kKey = "\"peak_bytes\":";
  return std::stoull(plan.substr(plan.find(kKey) + kKey.size()));
}

double PreparedModel::Evaluate(const std::map<std::string, Feed>& feeds) {
  const auto inputs = Inputs(feeds, module_->EvalInputs());
  std::vector<OwnedTensor> outputs;
  const std::vector<Tensor> views(inputs.begin(), inputs.end());
  module_->EvalStep(views, &outputs);
  return ToNumbers(outputs[0].view())[0];
}

Numbers64 PreparedModel::Gradient(const std::string& parameter) const {
  return ToNumbers(*state_->Gradient(parameter));
}

std::string CompareGradients(PreparedModel& model,
                             const std::map<std::string, Feed>& feeds) {
  model.module().LazyResetGrad();
  model.Train(feeds);
  for (const std::string& name : model.state().ParameterNames()) {
    if (!model.state().RequiresGrad(name)) continue;
    const Numbers64 gradient = model.Gradient(name);
    const auto values = model.state().ParameterValue(name).values<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      const double at = values[i];
      const double h = 1e-4;
      const auto loss = [&](double steps) {
        values[i] = at + steps * h;
        const double y = model.Evaluate(feeds);
        values[i] = at;
        return y;
      };
      const double slope =
          (8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * h);
      if (std::abs(slope - gradient[i]) <=
          1e-6 * std::max(1.0, std::abs(slope)))
        continue;
      return fmt::format("{}[{}] is {}, differences give {}", name, i,
                         gradient[i], slope);
    }
  }
  return "";
}

TrainabilityReport CheckModel(const ModelBuilder& model) {
  const std::string source = model.Encode();
  const Environment environment;
  return CheckTrainability(std::as_bytes(std::span(source)), environment);
}

std::string ErrorOfPreparing(const ModelBuilder& model,
                             const ArtifactOptions& options) {
  const std::string source = model.Encode();
  const Environment environment;
  try {
    EncodeArtifacts(std::as_bytes(std::span(source)), options, environment);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string LineWith(const std::vector<std::string>& lines,
                     const std::vector<std::string>& parts) {
  for (const std::string& line : lines) {
    const auto is_in = [&](const std::string& part) {
      return line.find(part) != std::string::npos;
    };
    if (std::ranges::all_of(parts, is_in)) return line;
  }
  return "";
}

}  // namespace strop
