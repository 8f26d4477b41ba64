// SPDX-License-Identifier: Apache-2.0
//
// A user input is a label if what is computed from it meets no more
// parameters on its way to the loss: data go through layers, labels go into
// the loss. Two refinements: the label slot of a loss op is known, and a
// parameter that was reduced (a penalty term) is not a layer.
#include "eval_roles.h"

#include <algorithm>
#include <array>
#include <set>

#include "graph/onnx_io.h"

namespace strop {
namespace {

// What a value is computed from.
struct Origin {
  std::vector<bool> inputs;  // user inputs, by their number
  bool weights = false;      // parameters, not reduced

  bool any_input() const {
    return std::ranges::find(inputs, true) != inputs.end();
  }
};

bool IsLossOp(const Node& node) {
  return node.domain == kOnnx && (node.op_type == "SoftmaxCrossEntropyLoss" ||
                                  node.op_type == "NegativeLogLikelihoodLoss");
}

// `generate_artifacts` names the values that its loss adds
// "onnx::NAME::NUMBER".
bool IsNameOfLossBlock(std::string_view name) {
  return name.starts_with("onnx::") && name.find("::", 6) != name.npos;
}

class RoleFinder {
 public:
  RoleFinder(const Graph& graph,
             const std::function<bool(std::string_view)>& is_parameter)
      : graph_(graph), origins_(graph.value_count()), reads_(NodeReads()) {
    for (ValueId id : graph.inputs()) {
      if (is_parameter(graph.value_name(id))) {
        Of(id).weights = true;
      } else if (!graph.value(id).initializer) {
        users_.push_back(id);
      }
    }
    for (Origin& origin : origins_) origin.inputs.resize(users_.size());
    for (size_t i = 0; i < users_.size(); ++i) Of(users_[i]).inputs[i] = true;
    for (NodeId id : graph.order()) Propagate(id);
    FindLabels();
  }

  EvalRoles Roles() const {
    EvalRoles roles;
    for (size_t i = 0; i < users_.size(); ++i) {
      if (is_label_[i]) {
        roles.label_inputs.push_back(graph_.value_name(users_[i]));
      }
    }
    // Output 0 is the loss.
    for (ValueId id : graph_.outputs().subspan(
             std::min<size_t>(graph_.outputs().size(), 1))) {
      if (!DependsOnLabel(id)) {
        roles.predictions.push_back(graph_.value_name(id));
      }
    }
    if (roles.predictions.empty()) {
      for (ValueId id : LossFeeds()) {
        roles.predictions.push_back(graph_.value_name(id));
      }
    }
    return roles;
  }

 private:
  Origin& Of(ValueId id) { return origins_[static_cast<size_t>(id.index)]; }
  const Origin& Of(ValueId id) const {
    return origins_[static_cast<size_t>(id.index)];
  }

  // Values that each node reads, those that its sub-graphs read included.
  std::vector<std::vector<ValueId>> NodeReads() const {
    std::vector<std::vector<ValueId>> reads;
    const auto consumers = graph_.Consumers();
    for (size_t value = 0; value < consumers.size(); ++value) {
      for (NodeId node : consumers[value]) {
        const size_t index = static_cast<size_t>(node.index);
        if (reads.size() <= index) reads.resize(index + 1);
        reads[index].push_back({static_cast<int32_t>(value)});
      }
    }
    return reads;
  }
  std::span<const ValueId> Reads(NodeId id) const {
    const size_t index = static_cast<size_t>(id.index);
    if (index >= reads_.size()) return {};
    return reads_[index];
  }

  void Propagate(NodeId id) {
    const Node& node = graph_.node(id);
    Origin origin;
    origin.inputs.resize(users_.size());
    for (ValueId read : Reads(id)) {
      for (size_t i = 0; i < users_.size(); ++i) {
        if (Of(read).inputs[i]) origin.inputs[i] = true;
      }
      origin.weights = origin.weights || Of(read).weights;
    }
    if (node.op_type.starts_with("Reduce") && !origin.any_input()) {
      origin.weights = false;
    }
    for (ValueId output : node.outputs) {
      if (output) Of(output) = origin;
    }
  }

  void FindLabels() {
    std::vector<bool> is_data(users_.size()), in_slot(users_.size());
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const bool has_weights =
          std::ranges::any_of(Reads(id), [&](ValueId read) {
            return Of(read).weights && !Of(read).any_input();
          });
      for (size_t i = 0; i < users_.size(); ++i) {
        const bool reads_input = std::ranges::any_of(
            Reads(id), [&](ValueId read) { return Of(read).inputs[i]; });
        if (reads_input && has_weights) is_data[i] = true;
        if (IsLossOp(node) && node.input(0) && node.input(1) &&
            Of(node.input(1)).inputs[i] && !Of(node.input(0)).inputs[i]) {
          in_slot[i] = true;
        }
      }
    }
    for (size_t i = 0; i < users_.size(); ++i) {
      const bool reaches_loss =
          !graph_.outputs().empty() && Of(graph_.outputs()[0]).inputs[i];
      is_label_.push_back(in_slot[i] || (reaches_loss && !is_data[i]));
    }
  }

  bool DependsOnLabel(ValueId id) const {
    for (size_t i = 0; i < users_.size(); ++i) {
      if (is_label_[i] && Of(id).inputs[i]) return true;
    }
    return false;
  }

  // Values of the network that nodes of the loss read. Where a loss reads a
  // prediction through several values (log(p) and log(1 - p)), what these are
  // computed from is looked for.
  std::vector<ValueId> LossFeeds() const {
    std::set<ValueId> feeds;
    for (NodeId id : graph_.order()) {
      const bool reads_label = std::ranges::any_of(
          Reads(id), [&](ValueId read) { return DependsOnLabel(read); });
      if (!reads_label) continue;
      for (ValueId read : Reads(id)) {
        if (Of(read).any_input() && !DependsOnLabel(read)) feeds.insert(read);
      }
    }
    for (const bool only_names : {true, false}) StepBack(&feeds, only_names);
    std::vector<ValueId> result(feeds.begin(), feeds.end());
    std::ranges::sort(result, {}, [&](ValueId id) { return Position(id); });
    return result;
  }

  size_t Position(ValueId id) const {
    const auto order = graph_.order();
    return static_cast<size_t>(
        std::ranges::find(order, graph_.value(id).producer) - order.begin());
  }

  // Replaces values by what they are computed from: those that a loss block
  // named, else the last of several. Stops at layers and inputs.
  void StepBack(std::set<ValueId>* feeds, bool only_names) const {
    std::set<ValueId> start = *feeds;
    while (!feeds->empty()) {
      auto last = feeds->end();
      for (auto it = feeds->begin(); it != feeds->end(); ++it) {
        const bool candidate = only_names
                                   ? IsNameOfLossBlock(graph_.value_name(*it))
                                   : feeds->size() > 1;
        if (candidate &&
            (last == feeds->end() || Position(*it) > Position(*last))) {
          last = it;
        }
      }
      if (last == feeds->end()) return;
      const NodeId producer = graph_.value(*last).producer;
      std::vector<ValueId> sources;
      bool is_layer = !producer;
      for (ValueId read :
           producer ? Reads(producer) : std::span<const ValueId>()) {
        if (Of(read).any_input()) {
          sources.push_back(read);
        } else if (Of(read).weights) {
          is_layer = true;
        }
      }
      if (is_layer) break;
      feeds->erase(last);
      feeds->insert(sources.begin(), sources.end());
    }
    if (!only_names && feeds->size() != 1) *feeds = start;
  }

  const Graph& graph_;
  std::vector<ValueId> users_;
  std::vector<Origin> origins_;  // by value
  std::vector<std::vector<ValueId>> reads_;
  std::vector<bool> is_label_;  // by user input
};

}  // namespace

EvalRoles FindEvalRoles(
    const Graph& graph,
    const std::function<bool(std::string_view)>& is_parameter) {
  return RoleFinder(graph, is_parameter).Roles();
}

EvalRoles ReadEvalRoles(const std::filesystem::path& eval_model,
                        const CheckpointState& state, FileSystem& files) {
  const Model model = ReadOnnx(eval_model, files);
  return FindEvalRoles(model.graph, [&](std::string_view name) {
    return state.HasParameter(name);
  });
}

std::vector<int64_t> LabelsOf(const EvalRoles& roles, const Dataset& data) {
  if (roles.label_inputs.size() != 1) return {};
  return data.Labels(roles.label_inputs[0]);
}

}  // namespace strop
