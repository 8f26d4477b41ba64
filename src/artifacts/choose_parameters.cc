// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "artifacts/names.h"
#include "artifacts/training_graphs.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/number.h"

namespace strop {
namespace {

class Chooser {
 public:
  Chooser(const Graph& graph, const ArtifactOptions& options,
          const Weights& weights)
      : graph_(graph),
        options_(options),
        weights_(weights),
        statistics_(AllRunningStatistics(graph)) {}

  void ChooseNamed() {
    for (const std::string& pattern : options_.requires_grad)
      if (!SelectTrainable(pattern)) ThrowUnknown(pattern);
    for (const std::string& pattern : options_.frozen_params) {
      if (SelectFrozen(pattern)) continue;
      // It may be of what an export folded away.
      if (options_.strict_names) ThrowUnknown(pattern);
      notes_.push_back(UnknownName(graph_, pattern));
    }
    LetNamesBeatGlobs();
    CheckDisjoint();
  }

  // All float parameters on which the loss depends.
  void ChooseAll(ValueId loss,
                 std::span<const CustomOpDomain* const> custom_ops) {
    std::vector<ValueId> candidates;
    for (const ValueId id : weights_.parameters)
      if (!statistics_.contains(id) && !frozen_.contains(id))
        candidates.push_back(id);
    const ValueId outputs[] = {loss};
    const Reach reach(graph_, outputs, candidates, custom_ops);
    for (const ValueId id : candidates)
      if (reach.Reaches(id)) trainable_.insert(id);
  }

  ParameterChoice Choice() {
    // Statistics that the model trains on go where eval finds them.
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!TrainsOnBatch(graph_, node, trainable_)) continue;
      for (const ValueId statistic : RunningStatistics(graph_, node))
        if (!trainable_.contains(statistic)) frozen_.insert(statistic);
    }
    ParameterChoice choice;
    for (const ValueId id : graph_.initializers()) {
      if (trainable_.contains(id)) choice.trainable.push_back(id);
      if (frozen_.contains(id)) choice.frozen.push_back(id);
    }
    choice.trained_inputs = trained_inputs_;
    choice.notes = notes_;
    return choice;
  }

 private:
  [[noreturn]] void ThrowUnknown(const std::string& pattern) const {
    Throw(ErrorCode::kNotFound, "{}", UnknownName(graph_, pattern));
  }

  bool SelectTrainable(const std::string& pattern) {
    std::string unmeant;
    bool found = SelectInputs(pattern);
    for (const ValueId id : graph_.initializers()) {
      const std::string& name = graph_.value_name(id);
      if (!Matches(pattern, name)) continue;
      if (pattern == name) {
        RequireFloat(id);
        trained_by_name_.insert(id);
      } else if (!IsMeantByGlob(id)) {
        if (unmeant.empty())
          unmeant = fmt::format("\"{}\" is {}", name, Kind(id));
        continue;
      }
      trainable_.insert(id);
      found = true;
    }
    if (!found && !unmeant.empty()) {
      Throw(ErrorCode::kInvalidArgument,
            "\"{}\" matches nothing that a pattern means: {}; a full name "
            "trains any float",
            pattern, unmeant);
    }
    return found;
  }

  bool SelectInputs(const std::string& name) {
    for (const ValueId id : graph_.inputs()) {
      if (graph_.value_name(id) != name || graph_.value(id).initializer)
        continue;
      if (!IsDifferentiable(graph_, id)) {
        Throw(ErrorCode::kInvalidArgument,
              "the input \"{}\" is of {} and has no gradient", name,
              DataTypeName(graph_.value(id).type.element));
      }
      trained_inputs_.push_back(id);
      return true;
    }
    return false;
  }

  bool SelectFrozen(const std::string& pattern) {
    bool found = false;
    for (const ValueId id : graph_.initializers()) {
      const std::string& name = graph_.value_name(id);
      if (!Matches(pattern, name)) continue;
      found = true;
      if (pattern == name)
        frozen_by_name_.insert(id);
      else if (!IsMeantByGlob(id) && !statistics_.contains(id))
        continue;
      frozen_.insert(id);
    }
    return found;
  }

  void RequireFloat(ValueId id) const {
    const DataType type = graph_.value(id).initializer->type;
    if (ops::IsFloatingPoint(type)) return;
    Throw(ErrorCode::kInvalidArgument,
          "\"{}\" is of {} and cannot be trained; a float type is wanted",
          graph_.value_name(id), DataTypeName(type));
  }

  // A glob takes of its matches what is trained where nobody chooses.
  bool IsMeantByGlob(ValueId id) const {
    return !statistics_.contains(id) &&
           std::ranges::find(weights_.parameters, id) !=
               weights_.parameters.end();
  }

  // Of what a glob does not mean.
  std::string Kind(ValueId id) const {
    const DataType type = graph_.value(id).initializer->type;
    if (!ops::IsFloatingPoint(type)) return "of " + DataTypeName(type);
    if (statistics_.contains(id)) return "a running statistic";
    const auto number = weights_.numbers.find(id);
    return number == weights_.numbers.end() ? "a table" : number->second;
  }

  // "All but": a full name takes what a pattern of the other list matches.
  void LetNamesBeatGlobs() {
    for (const ValueId id : frozen_by_name_)
      if (!trained_by_name_.contains(id)) trainable_.erase(id);
    for (const ValueId id : trained_by_name_)
      if (!frozen_by_name_.contains(id)) frozen_.erase(id);
  }

  void CheckDisjoint() const {
    std::string both;
    for (const ValueId id : trainable_)
      if (frozen_.contains(id))
        both += (both.empty() ? "" : ", ") + graph_.value_name(id);
    if (both.empty()) return;
    Throw(ErrorCode::kInvalidArgument,
          "parameters cannot be trained and frozen at once: {}", both);
  }

  const Graph& graph_;
  const ArtifactOptions& options_;
  const Weights& weights_;
  const std::set<ValueId> statistics_;
  std::set<ValueId> trainable_, frozen_;
  std::set<ValueId> trained_by_name_, frozen_by_name_;
  std::vector<ValueId> trained_inputs_;
  std::vector<std::string> notes_;
};

// Names of the graphs around that a sub-graph's BatchNormalizations read as
// their statistics.
std::set<std::string> StatisticsOfOthers(const Graph& body) {
  std::set<std::string> names;
  const auto add = [&](ValueId id) {
    if (id && body.value(id).outer) names.insert(body.value_name(id));
  };
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    if (IsBatchNormalization(node)) {
      add(node.input(3));
      add(node.input(4));
    }
    ForEachSubgraph(node, [&](const Graph& inner) {
      for (const std::string& name : StatisticsOfOthers(inner)) {
        const ValueId here = body.Find(name);
        if (!here || body.value(here).outer) names.insert(name);
      }
    });
  }
  return names;
}

}  // namespace

bool IsBatchNormalization(const Node& node) {
  return node.op_type == "BatchNormalization" && node.domain.empty();
}

std::vector<ValueId> RunningStatistics(const Graph& graph, const Node& node) {
  std::vector<ValueId> statistics;
  if (!IsBatchNormalization(node)) return statistics;
  for (const size_t i : {size_t{3}, size_t{4}}) {
    const ValueId input = node.input(i);
    if (input && graph.value(input).initializer) statistics.push_back(input);
  }
  return statistics;
}

std::set<ValueId> AllRunningStatistics(const Graph& graph) {
  std::set<ValueId> statistics;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const ValueId statistic : RunningStatistics(graph, node))
      statistics.insert(statistic);
    ForEachSubgraph(node, [&](const Graph& body) {
      for (const std::string& name : StatisticsOfOthers(body)) {
        const ValueId here = graph.Find(name);
        if (here && graph.value(here).initializer) statistics.insert(here);
      }
    });
  }
  return statistics;
}

bool TrainsOnBatch(const Graph& graph, const Node& node,
                   const std::set<ValueId>& trainable) {
  if (!IsBatchNormalization(node)) return false;
  if (OpNode(graph, node).Int("training_mode", 0) != 0) return true;
  return trainable.contains(node.input(1)) || trainable.contains(node.input(2));
}

ParameterChoice ChooseParameters(
    const Graph& graph, const ArtifactOptions& options, ValueId loss,
    const Weights& weights, std::span<const CustomOpDomain* const> custom_ops) {
  Chooser chooser(graph, options, weights);
  chooser.ChooseNamed();
  const bool unnamed = options.requires_grad.empty();
  if (unnamed && !options.only_named) chooser.ChooseAll(loss, custom_ops);
  ParameterChoice choice = chooser.Choice();
  if (options.only_named && choice.trainable.empty() &&
      options.optimizer != OptimizerKind::kNone) {
    Throw(ErrorCode::kInvalidArgument,
          "an optimizer was asked for, but no parameter was named that it "
          "could train");
  }
  if (options.only_named && unnamed) return choice;
  if (choice.trainable.empty() && choice.trained_inputs.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "nothing is trainable: the loss depends on no float parameter{}",
          options.requires_grad.empty() ? "" : " that was named");
  }
  return choice;
}

}  // namespace strop
