// SPDX-License-Identifier: Apache-2.0
//
// A user's own loss: the graph of a model, put behind the base model.
#include <map>

#include "artifacts/training_graphs.h"
#include "base/throw.h"

namespace strop {
namespace {

class Appender {
 public:
  Appender(Graph& graph, const Graph& loss) : graph_(graph), loss_(loss) {}

  ValueId Append() {
    if (loss_.outputs().empty())
      Throw(ErrorCode::kInvalidArgument, "the loss model has no output");
    for (const auto& [domain, version] : loss_.opset_imports)
      AddImport(domain, version);
    for (const ValueId id : loss_.inputs())
      if (!loss_.value(id).initializer) Map(id, InputNamed(loss_.value(id)));
    for (const ValueId id : loss_.initializers()) {
      TensorData data = *loss_.value(id).initializer;
      data.name = graph_.FreshName(data.name);
      data.encoded = {};
      Map(id, graph_.AddInitializer(std::move(data)));
    }
    for (const NodeId id : loss_.order()) AppendNode(loss_.node(id));
    return At(loss_.outputs()[0]);
  }

 private:
  void AddImport(const std::string& domain, int64_t version) {
    const auto [place, is_new] = graph_.opset_imports.emplace(domain, version);
    if (is_new || place->second == version) return;
    Throw(
        ErrorCode::kInvalidArgument,
        "the loss model is of opset {} of \"{}\", the model of opset {}: they "
        "must be equal",
        version, domain, place->second);
  }

  // A value of the model of that name, or a new input.
  ValueId InputNamed(const Value& input) {
    if (const ValueId there = graph_.Find(input.name)) return there;
    return graph_.AddInput(input.name, input.type);
  }

  void AppendNode(const Node& node) {
    for (const Attribute& attribute : node.attributes) {
      if (!std::holds_alternative<std::shared_ptr<const Graph>>(
              attribute.value))
        continue;
      Throw(ErrorCode::kNotImplemented,
            "{} of the loss model has sub-graphs, which a loss may not have",
            Describe(loss_, node));
    }
    Node copy = node;
    copy.spelling = nullptr;
    for (ValueId& input : copy.inputs)
      if (input) input = At(input);
    for (ValueId& output : copy.outputs) {
      if (!output) continue;
      const Value& value = loss_.value(output);
      const ValueId id =
          graph_.AddValue(graph_.FreshName(value.name), value.type);
      Map(output, id);
      output = id;
    }
    graph_.AddNode(std::move(copy));
  }

  void Map(ValueId from, ValueId to) { values_[from] = to; }
  ValueId At(ValueId id) const { return values_.at(id); }

  Graph& graph_;
  const Graph& loss_;
  std::map<ValueId, ValueId> values_;
};

}  // namespace

ValueId AddLossModel(Graph& graph, const Graph& loss) {
  return Appender(graph, loss).Append();
}

}  // namespace strop
