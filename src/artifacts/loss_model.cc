// SPDX-License-Identifier: Apache-2.0
//
// A user's own loss: the graph of a model, put behind the base model.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "artifacts/notes.h"
#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "graph/subgraphs.h"
#include "ops/infer_shapes.h"

namespace strop {
namespace {

// What is not known fits.
bool Fits(const ValueType& given, const ValueType& wanted) {
  if (given.kind != wanted.kind)
    return given.kind == ValueType::Kind::kUnknown ||
           wanted.kind == ValueType::Kind::kUnknown;
  if (given.element != wanted.element &&
      given.element != DataType::kUndefined &&
      wanted.element != DataType::kUndefined)
    return false;
  if (!given.dims || !wanted.dims) return true;
  return std::ranges::equal(
      *given.dims, *wanted.dims, [](const Dimension& a, const Dimension& b) {
        return !a.value || !b.value || *a.value == *b.value;
      });
}

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
    Throw(ErrorCode::kInvalidArgument,
          "the loss model is of opset {} of {}, the model of opset {}: they "
          "must be equal",
          version, domain.empty() ? "ai.onnx" : domain, place->second);
  }

  // A value of the model of that name, which must be what the loss model
  // wants, or a new input.
  ValueId InputNamed(const Value& input) {
    const ValueId there = graph_.Find(input.name);
    if (!there) return graph_.AddInput(input.name, input.type);
    const ValueType& given = graph_.value(there).type;
    if (!Fits(given, input.type)) {
      Throw(ErrorCode::kInvalidArgument,
            "the loss model's input \"{}\" is {}, the model's value of that "
            "name is {}",
            input.name, DescribeType(input.type), DescribeType(given));
    }
    return there;
  }

  void AppendNode(const Node& node) {
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
    RewriteSubgraphs(copy, [&](Graph& body) {
      body = CopyBody(body, [&](const std::string& name) {
        return graph_.value_name(At(loss_.Find(name)));
      });
    });
    graph_.AddNode(std::move(copy));
  }

  // Gives the name in the model of a value around a sub-graph.
  using OuterName = std::function<std::string(const std::string&)>;

  // The sub-graph with names that neither the model nor another sub-graph
  // has.
  Graph CopyBody(const Graph& body, const OuterName& outer) {
    Graph copy;
    copy.name = body.name;
    copy.opset_imports = body.opset_imports;
    copy.file_spelling = body.file_spelling;
    std::vector<ValueId> map;
    for (size_t i = 0; i < body.value_count(); ++i)
      map.push_back(
          CopyValue(body, ValueId{static_cast<int32_t>(i)}, copy, outer));
    const auto mapped = [&](std::span<const ValueId> ids) {
      std::vector<ValueId> result;
      for (const ValueId id : ids)
        result.push_back(id ? map[static_cast<size_t>(id.index)] : id);
      return result;
    };
    copy.SetInputs(mapped(body.inputs()));
    for (const ValueId id : body.initializers()) {
      TensorData data = *body.value(id).initializer;
      data.name = copy.value_name(map[static_cast<size_t>(id.index)]);
      data.encoded = {};
      copy.AddInitializer(std::move(data));
    }
    const OuterName inner = [&](const std::string& name) {
      const ValueId here = body.Find(name);
      if (!here) return outer(name);
      return copy.value_name(map[static_cast<size_t>(here.index)]);
    };
    for (const NodeId id : body.order()) {
      Node node = body.node(id);
      node.spelling = nullptr;
      node.inputs = mapped(node.inputs);
      node.outputs = mapped(node.outputs);
      RewriteSubgraphs(
          node, [&](Graph& deeper) { deeper = CopyBody(deeper, inner); });
      copy.AddNode(std::move(node));
    }
    copy.SetOutputs(mapped(body.outputs()));
    return copy;
  }

  ValueId CopyValue(const Graph& body, ValueId id, Graph& copy,
                    const OuterName& outer) {
    const Value& value = body.value(id);
    if (value.is_sparse_initializer) {
      Throw(ErrorCode::kNotImplemented,
            "the sparse initializer \"{}\" inside a loss model", value.name);
    }
    if (!value.outer) return copy.AddValue(UniqueName(value.name), value.type);
    const std::string name = outer(value.name);
    // Two names may be one value now.
    if (const ValueId there = copy.Find(name)) return there;
    const ValueId added = copy.AddValue(name, value.type);
    copy.value(added).outer = true;
    return added;
  }

  std::string UniqueName(const std::string& stem) {
    std::string name = graph_.FreshName(stem);
    while (!names_inside_.insert(name).second)
      name = graph_.FreshName(name + "_inside");
    return name;
  }

  void Map(ValueId from, ValueId to) { values_[from] = to; }
  ValueId At(ValueId id) const {
    const auto found = values_.find(id);
    if (found != values_.end()) return found->second;
    Throw(ErrorCode::kNotImplemented,
          "the loss model reads \"{}\", which is no input, no node's output "
          "and no dense initializer of it",
          loss_.value_name(id));
  }

  Graph& graph_;
  const Graph& loss_;
  std::map<ValueId, ValueId> values_;
  std::set<std::string> names_inside_;
};

}  // namespace

ValueId AddLossModel(Graph& graph, const Graph& loss,
                     std::span<const CustomOpDomain* const> custom_ops) {
  InferShapes(graph, custom_ops);
  return Appender(graph, loss).Append();
}

}  // namespace strop
