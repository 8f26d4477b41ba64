// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "artifacts/training_graphs.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/number.h"

namespace strop {
namespace {

// `*` stands for any text, `?` for one character.
bool Matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) &&
        pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsGlob(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

// Insertions, deletions and exchanges that make b of a.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string ShapeText(const std::vector<int64_t>& dims) {
  return Shape(dims).ToString();
}

[[noreturn]] void ThrowUnknown(const Graph& graph, const std::string& name) {
  constexpr size_t kOffered = 5;
  std::vector<std::pair<size_t, ValueId>> near;
  for (const ValueId id : graph.initializers())
    near.emplace_back(EditDistance(name, graph.value_name(id)), id);
  std::ranges::sort(near);
  std::string text;
  for (size_t i = 0; i < std::min(kOffered, near.size()); ++i) {
    const TensorData& data = *graph.value(near[i].second).initializer;
    text +=
        fmt::format("{}\"{}\" {} of shape {}", i == 0 ? "" : ", ", data.name,
                    DataTypeName(data.type), ShapeText(data.dims));
  }
  Throw(ErrorCode::kNotFound, "the model has no parameter {} \"{}\"{}{}",
        IsGlob(name) ? "that matches" : "called", name,
        text.empty() ? "" : "; near names are ", text);
}

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
      if (!SelectTrainable(pattern)) ThrowUnknown(graph_, pattern);
    // Names that are no parameter may be of what an export folded away.
    for (const std::string& pattern : options_.frozen_params)
      for (const ValueId id : graph_.initializers())
        if (Matches(pattern, graph_.value_name(id))) frozen_.insert(id);
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
    return choice;
  }

 private:
  bool SelectTrainable(const std::string& pattern) {
    bool found = false;
    for (const ValueId id : graph_.initializers()) {
      const std::string& name = graph_.value_name(id);
      if (!Matches(pattern, name)) continue;
      const TensorData& data = *graph_.value(id).initializer;
      found = true;
      if (IsGlob(pattern) && !IsMeantByGlob(id)) continue;
      if (!ops::IsFloatingPoint(data.type)) {
        Throw(ErrorCode::kInvalidArgument,
              "\"{}\" is of {} and cannot be trained; a float type is wanted",
              name, DataTypeName(data.type));
      }
      trainable_.insert(id);
    }
    for (const ValueId id : graph_.inputs()) {
      if (graph_.value_name(id) != pattern || graph_.value(id).initializer)
        continue;
      if (!IsDifferentiable(graph_, id)) {
        Throw(ErrorCode::kInvalidArgument,
              "the input \"{}\" is of {} and has no gradient", pattern,
              DataTypeName(graph_.value(id).type.element));
      }
      trained_inputs_.push_back(id);
      found = true;
    }
    return found;
  }

  // A glob takes of its matches what is trained where nobody chooses.
  bool IsMeantByGlob(ValueId id) const {
    return !statistics_.contains(id) &&
           std::ranges::find(weights_.parameters, id) !=
               weights_.parameters.end();
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
  std::vector<ValueId> trained_inputs_;
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
  if (options.requires_grad.empty()) chooser.ChooseAll(loss, custom_ops);
  ParameterChoice choice = chooser.Choice();
  if (choice.trainable.empty() && choice.trained_inputs.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "nothing is trainable: the loss depends on no float parameter{}",
          options.requires_grad.empty() ? "" : " that was named");
  }
  return choice;
}

}  // namespace strop
