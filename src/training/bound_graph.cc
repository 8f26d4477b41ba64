// SPDX-License-Identifier: Apache-2.0
#include "training/bound_graph.h"

#include <algorithm>
#include <cstring>

#include "base/throw.h"
#include "passes/specialize.h"
#include "runtime/lower.h"
#include "training/finite.h"

namespace strop {
namespace {

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "\"" : ", \"") + name + "\"";
  }
  return text.empty() ? "none" : text;
}

}  // namespace

BoundGraph::BoundGraph(std::string title, Graph graph,
                       const std::vector<size_t>& user_inputs,
                       Statistics statistics, const Session& session)
    : title_(std::move(title)), user_inputs_(user_inputs) {
  Specialize(graph,
             {.disabled = session.options().disabled_passes,
              .update_batch_norm_statistics = statistics == Statistics::kUpdate,
              .memory_is_limited = session.options().memory_limit_bytes > 0});
  LoweredGraph lowered = Lower(std::move(graph), session.custom_ops());

  std::vector<bool> written(lowered.graph.value_count(), false);
  for (NodeId id : lowered.order) {
    const OpDef& op = *lowered.ops[static_cast<size_t>(id.index)];
    draws_random_numbers_ = draws_random_numbers_ || op.is_random;
    const Node& node = lowered.graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i] || !op.mutates.contains(i)) continue;
      written[static_cast<size_t>(node.inputs[i].index)] = true;
    }
  }
  executor_ = std::make_unique<Executor>(std::move(lowered), session.arena(),
                                         session.executor_options());

  const Graph& kept = executor_->graph();
  arguments_.resize(kept.inputs().size());
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (written[static_cast<size_t>(kept.inputs()[i].index)]) {
      written_inputs_.push_back(i);
    }
  }
  for (size_t position : user_inputs_) DescribeUserInput(position);
  for (ValueId output : kept.outputs()) {
    output_names_.push_back(kept.value_name(output));
  }
}

void BoundGraph::DescribeUserInput(size_t position) {
  const Value& value =
      executor_->graph().value(executor_->graph().inputs()[position]);
  if (value.type.kind == ValueType::Kind::kTensorList ||
      value.type.kind == ValueType::Kind::kOther) {
    Throw(ErrorCode::kNotImplemented,
          "{}: input \"{}\" is not a tensor; only tensors can be given", title_,
          value.name);
  }
  Module::InputInfo info = {.name = value.name,
                            .type = value.type.element,
                            .has_shape = value.type.dims.has_value(),
                            .dims = {}};
  std::vector<DimensionRule> rules;
  std::vector<std::string> symbols;
  if (value.type.dims) {
    for (const Dimension& dim : *value.type.dims) {
      info.dims.push_back(dim.value.value_or(-1));
      symbols.push_back(dim.symbol);
      DimensionRule rule = {.value = dim.value.value_or(-1)};
      if (!dim.value && !dim.symbol.empty()) {
        const auto own =
            std::find(symbols.begin(), symbols.end() - 1, dim.symbol);
        rule = RuleFor(dim.symbol);
        if (rule.same_input < 0 && own != symbols.end() - 1) {
          rule.same_input = static_cast<int>(infos_.size());
          rule.same_axis = static_cast<size_t>(own - symbols.begin());
        }
      }
      rules.push_back(rule);
    }
  }
  input_names_.push_back(value.name);
  infos_.push_back(std::move(info));
  rules_.push_back(std::move(rules));
  dim_symbols_.push_back(std::move(symbols));
}

BoundGraph::DimensionRule BoundGraph::RuleFor(const std::string& symbol) const {
  for (size_t input = 0; input < dim_symbols_.size(); ++input) {
    for (size_t axis = 0; axis < dim_symbols_[input].size(); ++axis) {
      if (infos_[input].dims[axis] < 0 && dim_symbols_[input][axis] == symbol) {
        return {.same_input = static_cast<int>(input), .same_axis = axis};
      }
    }
  }
  return {};
}

void BoundGraph::Run(std::span<const Tensor> inputs, const StepOutputs& outputs,
                     const RandomKey& random, bool fail_if_not_finite) {
  CheckInputs(inputs, /*need_data=*/true);
  if (!outputs.given.empty() && outputs.given.size() != output_names_.size()) {
    Throw(ErrorCode::kInvalidArgument,
          "{}: {} outputs are wanted ({}) or none, {} were given", title_,
          output_names_.size(), JoinNames(output_names_), outputs.given.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments_[user_inputs_[i]].tensor = inputs[i];
  }
  // Small enough for std::function to keep without allocating.
  struct Hook {
    const BoundGraph* graph;
    const StepOutputs* outputs;
    void operator()() const { graph->PrepareOutputs(*outputs); }
  };
  struct StrictHook : Hook {
    void operator()() const {
      this->graph->CheckFinite();
      Hook::operator()();
    }
  };
  if (fail_if_not_finite) {
    executor_->Run(arguments_, random, StrictHook{{this, &outputs}});
  } else {
    executor_->Run(arguments_, random, Hook{this, &outputs});
  }
  has_run_ = true;
  CopyOutputs(outputs);
}

void BoundGraph::CheckInputs(std::span<const Tensor> inputs,
                             bool need_data) const {
  if (inputs.size() != user_inputs_.size()) {
    Throw(ErrorCode::kInvalidArgument,
          "{}: {} inputs are wanted ({}), {} were given", title_,
          user_inputs_.size(), JoinNames(input_names_), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckInput(i, inputs);
    if (need_data && inputs[i].data() == nullptr &&
        inputs[i].element_count() > 0) {
      Throw(ErrorCode::kInvalidArgument, "{}: input \"{}\" has no data", title_,
            input_names_[i]);
    }
  }
}

void BoundGraph::CheckInput(size_t i, std::span<const Tensor> inputs) const {
  const Module::InputInfo& info = infos_[i];
  const Tensor& given = inputs[i];
  if (given.type() == DataType::kUndefined ||
      (info.type != DataType::kUndefined && given.type() != info.type)) {
    FailInput(i, given);
  }
  if (!info.has_shape) return;
  if (given.shape().rank() != info.dims.size()) FailInput(i, given);
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const DimensionRule& rule = rules_[i][axis];
    if (rule.value >= 0 && given.shape()[axis] != rule.value) {
      FailInput(i, given);
    }
    if (rule.same_input < 0) continue;
    const Shape& other = inputs[static_cast<size_t>(rule.same_input)].shape();
    if (given.shape()[axis] == other[rule.same_axis]) continue;
    Throw(ErrorCode::kInvalidArgument,
          "{}: dimension {} ({}) of input \"{}\" is {}, but dimension {} of "
          "input \"{}\" is {}; they must be equal",
          title_, axis, dim_symbols_[i][axis], info.name, given.shape()[axis],
          rule.same_axis, input_names_[static_cast<size_t>(rule.same_input)],
          other[rule.same_axis]);
  }
}

void BoundGraph::FailInput(size_t i, const Tensor& given) const {
  const Module::InputInfo& info = infos_[i];
  std::string wanted =
      info.type == DataType::kUndefined ? "a tensor" : DataTypeName(info.type);
  if (info.has_shape) {
    wanted += " of shape (";
    for (size_t axis = 0; axis < info.dims.size(); ++axis) {
      if (axis > 0) wanted += ", ";
      if (info.dims[axis] >= 0) {
        wanted += std::to_string(info.dims[axis]);
      } else {
        const std::string& symbol = dim_symbols_[i][axis];
        wanted += symbol.empty() ? "?" : symbol;
      }
    }
    wanted += ")";
  }
  const bool other_type =
      info.type != DataType::kUndefined && info.type != given.type();
  Throw(other_type ? ErrorCode::kTypeMismatch : ErrorCode::kInvalidArgument,
        "{}: input \"{}\" is wanted as {}, {} of shape {} was given", title_,
        info.name, wanted, DataTypeName(given.type()),
        given.shape().ToString());
}

void BoundGraph::PrepareOutputs(const StepOutputs& outputs) const {
  if (outputs.owned != nullptr) {
    outputs.owned->resize(output_names_.size());
    for (size_t i = 0; i < output_names_.size(); ++i) {
      const Tensor made = executor_->output(i);
      (*outputs.owned)[i].Resize(made.type(), made.shape());
    }
    return;
  }
  for (size_t i = 0; i < outputs.given.size(); ++i) {
    const Tensor made = executor_->output(i);
    const Tensor& given = outputs.given[i];
    if (given.type() != made.type() || !(given.shape() == made.shape()) ||
        (given.data() == nullptr && made.element_count() > 0)) {
      Throw(given.type() != made.type() ? ErrorCode::kTypeMismatch
                                        : ErrorCode::kInvalidArgument,
            "{}: output \"{}\" is {} of shape {}, memory of {} of shape {}{} "
            "was given",
            title_, output_names_[i], DataTypeName(made.type()),
            made.shape().ToString(), DataTypeName(given.type()),
            given.shape().ToString(),
            given.data() == nullptr ? " without data" : "");
    }
  }
}

void BoundGraph::CopyOutputs(const StepOutputs& outputs) const {
  auto copy = [this](size_t i, const Tensor& target) {
    const Tensor made = executor_->output(i);
    if (made.byte_count() == 0) return;
    std::memcpy(target.data(), made.data(), made.byte_count());
  };
  if (outputs.owned != nullptr) {
    for (size_t i = 0; i < output_names_.size(); ++i) {
      copy(i, (*outputs.owned)[i].view());
    }
  } else {
    for (size_t i = 0; i < outputs.given.size(); ++i) {
      copy(i, outputs.given[i]);
    }
  }
}

void BoundGraph::CheckFinite() const {
  if (output_names_.empty() || IsFinite(executor_->output(0))) return;
  Throw(ErrorCode::kNonFinite,
        "{}: the loss \"{}\" is infinite or not a number; nothing was updated",
        title_, output_names_[0]);
}

const Plan& BoundGraph::PlanFor(std::span<const Tensor> inputs) {
  if (inputs.empty() && !user_inputs_.empty()) {
    if (!has_run_) {
      Throw(ErrorCode::kFailedState,
            "{}: a plan is made for concrete inputs; give them, or run a step "
            "before",
            title_);
    }
    return executor_->Prepare(arguments_);
  }
  CheckInputs(inputs, /*need_data=*/false);
  std::vector<Argument> arguments = arguments_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments[user_inputs_[i]].tensor = inputs[i];
  }
  return executor_->Prepare(arguments);
}

}  // namespace strop
