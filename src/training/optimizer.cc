// SPDX-License-Identifier: Apache-2.0
#include "strop/optimizer.h"

#include <array>
#include <utility>

#include "base/throw.h"
#include "checkpoint/parameter_store.h"
#include "training/bound_graph.h"
#include "training/optimizer_algorithm.h"
#include "training/session.h"

namespace strop {
namespace {

constexpr std::string_view kGroupName = "group0";

ParameterStore& StoreOf(CheckpointState* state) {
  if (state == nullptr) {
    Throw(ErrorCode::kInvalidArgument,
          "Optimizer: the checkpoint state is null");
  }
  return state->store();
}

const ModelSource& SourceOf(const ModelIdentifiers& models) {
  if (!models.optimizer) {
    Throw(ErrorCode::kInvalidArgument,
          "Optimizer: no optimizer model was given");
  }
  return *models.optimizer;
}

std::vector<Parameter*> TrainableParameters(ParameterStore& store) {
  std::vector<Parameter*> trainable;
  for (Parameter& parameter : store.parameters) {
    if (parameter.requires_grad) trainable.push_back(&parameter);
  }
  return trainable;
}

// Zero moments for every parameter, each kind in one block.
void AddZeroMoments(const std::vector<Parameter*>& parameters,
                    std::span<const std::string_view> names,
                    OptimizerGroup& group) {
  std::vector<TensorInfo> infos;
  for (const Parameter* parameter : parameters) {
    infos.push_back({parameter->value.type(), parameter->value.shape()});
  }
  for (std::string_view name : names) {
    const TensorBlock& block = group.blocks.emplace_back(infos);
    for (size_t i = 0; i < parameters.size(); ++i) {
      group.parameters[parameters[i]->name].emplace(name, block.tensors()[i]);
    }
  }
}

// The moment of a parameter, checked: it may come from a file.
Tensor FindMoment(const OptimizerGroup& group, const Parameter& parameter,
                  std::string_view name) {
  const auto moments = group.parameters.find(parameter.name);
  if (moments == group.parameters.end()) {
    Throw(ErrorCode::kInvalidArgument,
          "Optimizer: the parameter \"{}\" was not found in the optimizer "
          "state of the checkpoint",
          parameter.name);
  }
  const auto moment = moments->second.find(name);
  if (moment == moments->second.end()) {
    Throw(ErrorCode::kInvalidArgument,
          "Optimizer: the optimizer state of the checkpoint has no \"{}\" for "
          "the parameter \"{}\"; it was written by another kind of optimizer",
          name, parameter.name);
  }
  const Tensor& tensor = moment->second;
  if (tensor.type() != parameter.value.type() ||
      !(tensor.shape() == parameter.value.shape())) {
    Throw(ErrorCode::kInvalidArgument,
          "Optimizer: \"{}\" of the parameter \"{}\" is {} of shape {}, the "
          "parameter is {} of shape {}",
          name, parameter.name, DataTypeName(tensor.type()),
          tensor.shape().ToString(), DataTypeName(parameter.value.type()),
          parameter.value.shape().ToString());
  }
  return tensor;
}

bool IsUpdateFlag(const Graph& graph, ValueId value,
                  const OptimizerAlgorithm& algorithm) {
  const NodeId producer = graph.value(value).producer;
  return producer && graph.node(producer).domain == kMicrosoft &&
         graph.node(producer).op_type == algorithm.op_type &&
         graph.node(producer).output(0) == value;
}

}  // namespace

class Optimizer::Impl {
 public:
  Impl(const ModelIdentifiers& models, CheckpointState* state,
       const SessionOptions& options, const Environment& environment,
       const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
       std::span<const CustomOpDomain* const> custom_ops)
      : store_(StoreOf(state)),
        session_(options, environment, providers, custom_ops),
        graph_(MakeGraph(SourceOf(models))) {
    if (TrainableParameters(store_).empty()) {
      Throw(ErrorCode::kInvalidArgument,
            "Optimizer: the checkpoint has no trainable parameter");
    }
    if (store_.is_nominal) {
      group_ = &FindOrAddGroup();
    } else {
      ConstructState();
    }
  }

  void ConstructState() {
    if (is_constructed_) return;
    store_.RequireValues("Optimizer");
    const std::vector<Parameter*> parameters = TrainableParameters(store_);
    for (const Parameter* parameter : parameters) {
      if (parameter->gradient.type() == DataType::kUndefined) {
        Throw(ErrorCode::kFailedState,
              "Optimizer: the parameter \"{}\" has no gradient; a Module must "
              "be made before",
              parameter->name);
      }
    }
    // Made aside, so that an Error leaves the state as it was.
    const auto existing = store_.groups.find(kGroupName);
    const bool has_moments =
        existing != store_.groups.end() && !existing->second.parameters.empty();
    OptimizerGroup made;
    if (!has_moments) AddZeroMoments(parameters, algorithm_->moments, made);
    const OptimizerGroup& source = has_moments ? existing->second : made;

    std::vector<Tensor> values, gradients;
    std::array<std::vector<Tensor>, kMaxMoments> moments;
    for (const Parameter* parameter : parameters) {
      values.push_back(parameter->value);
      gradients.push_back(parameter->gradient);
      for (size_t i = 0; i < algorithm_->moments.size(); ++i) {
        moments[i].push_back(
            FindMoment(source, *parameter, algorithm_->moments[i]));
      }
    }

    group_ = &FindOrAddGroup();
    if (!has_moments) {
      group_->parameters = std::move(made.parameters);
      group_->blocks = std::move(made.blocks);
    }
    parameters_ = parameters;
    values_ = std::move(values);
    gradients_ = std::move(gradients);
    moments_ = std::move(moments);
    BindInputs();
    is_constructed_ = true;
  }

  void Step() {
    ConstructState();
    learning_rate_[0] = group_->learning_rate;
    step_[0] = group_->step + 1;
    graph_.Run({}, {}, {});
    if (!graph_.output(0).values<bool>()[0]) return;
    ++group_->step;
  }

  OptimizerGroup& group() const { return *group_; }

 private:
  static constexpr size_t kMaxMoments = 2;
  enum InputPosition { kLearningRate, kStep, kParams, kGradients, kMoments };

  BoundGraph MakeGraph(const ModelSource& source) {
    Graph graph = ReadModel(source, session_.environment()).graph;
    algorithm_ = &FindOptimizerAlgorithm(graph);
    if (graph.outputs().empty()) {
      Throw(ErrorCode::kInvalidGraph,
            "the optimizer graph has no output that says whether the update "
            "was applied");
    }
    const ValueId flag = graph.outputs()[0];
    // Anything else could not be read after the update without a fault.
    if (!IsUpdateFlag(graph, flag, *algorithm_)) {
      Throw(ErrorCode::kInvalidGraph,
            "output 0 of the optimizer graph, \"{}\", is not the flag that "
            "{} gives",
            graph.value_name(flag), algorithm_->op_type);
    }
    graph.SetOutputs({flag});
    return BoundGraph("OptimizerStep", std::move(graph), /*user_inputs=*/{},
                      BoundGraph::Statistics::kKeep, session_);
  }

  OptimizerGroup& FindOrAddGroup() {
    return store_.groups.try_emplace(std::string(kGroupName)).first->second;
  }

  void BindInputs() {
    const Shape one = {1};
    graph_.Bind(kLearningRate, Tensor(one, learning_rate_));
    graph_.Bind(kStep, Tensor(one, step_));
    graph_.BindList(kParams, values_);
    graph_.BindList(kGradients, gradients_);
    for (size_t i = 0; i < algorithm_->moments.size(); ++i) {
      graph_.BindList(kMoments + i, moments_[i]);
    }
  }

  // Stays where it is when the state is moved.
  ParameterStore& store_;
  Session session_;
  const OptimizerAlgorithm* algorithm_ = nullptr;
  BoundGraph graph_;
  OptimizerGroup* group_ = nullptr;
  bool is_constructed_ = false;
  float learning_rate_[1] = {};
  int64_t step_[1] = {};
  // One entry for each trainable parameter, in ascending order of names.
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> values_, gradients_;
  std::array<std::vector<Tensor>, kMaxMoments> moments_;
};

Optimizer::Optimizer(
    const ModelIdentifiers& models, CheckpointState* state,
    const SessionOptions& options, const Environment& environment,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
    std::span<const CustomOpDomain* const> custom_ops)
    : impl_(std::make_unique<Impl>(models, state, options, environment,
                                   providers, custom_ops)) {}
Optimizer::~Optimizer() = default;

void Optimizer::ConstructState() { impl_->ConstructState(); }

void Optimizer::Step() { impl_->Step(); }

float Optimizer::GetLearningRate() const {
  return impl_->group().learning_rate;
}

void Optimizer::SetLearningRate(float rate) {
  impl_->group().learning_rate = rate;
}

void Optimizer::SetInitialLearningRate(float rate) {
  impl_->group().initial_learning_rate = rate;
  impl_->group().learning_rate = rate;
}

float Optimizer::GetInitialLearningRate() const {
  return impl_->group().initial_learning_rate;
}

int64_t Optimizer::step_count() const { return impl_->group().step; }

}  // namespace strop
