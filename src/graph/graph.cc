// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <queue>
#include <utility>

#include "base/throw.h"
#include "graph/subgraphs.h"

namespace strop {

ValueType ValueType::OfTensor(DataType element,
                              std::optional<std::vector<Dimension>> dims) {
  ValueType type;
  type.kind = Kind::kTensor;
  type.element = element;
  type.dims = std::move(dims);
  return type;
}

TensorData TensorData::Copy(std::string name, const Tensor& tensor) {
  auto copy = std::make_shared<OwnedTensor>(tensor);
  TensorData data;
  data.name = std::move(name);
  data.type = tensor.type();
  data.dims.assign(tensor.shape().begin(), tensor.shape().end());
  data.bytes = copy->view().bytes();
  data.owner = std::move(copy);
  return data;
}

Tensor TensorData::view() const {
  if (DataTypeSize(type) == 0) {
    Throw(ErrorCode::kNotImplemented,
          "tensor \"{}\" has elements of {}, which Strop only carries", name,
          DataTypeName(type));
  }
  Tensor tensor(type, Shape(dims), const_cast<std::byte*>(bytes.data()));
  if (tensor.byte_count() != bytes.size()) {
    Throw(ErrorCode::kNotImplemented,
          "tensor \"{}\" of shape {} needs {} bytes of {}, but {} are there",
          name, tensor.shape().ToString(), tensor.byte_count(),
          DataTypeName(type), bytes.size());
  }
  return tensor;
}

const Attribute* Node::FindAttribute(std::string_view wanted) const {
  for (const Attribute& attribute : attributes)
    if (attribute.name == wanted) return &attribute;
  return nullptr;
}

void Node::SetAttribute(std::string_view attribute_name,
                        Attribute::Value value) {
  Attribute made;
  made.name = attribute_name;
  made.value = std::move(value);
  for (Attribute& attribute : attributes) {
    if (attribute.name == attribute_name) {
      attribute = std::move(made);
      return;
    }
  }
  attributes.push_back(std::move(made));
}

void Node::RemoveAttribute(std::string_view attribute_name) {
  std::erase_if(attributes, [&](const Attribute& attribute) {
    return attribute.name == attribute_name;
  });
}

int64_t Graph::opset(std::string_view domain) const {
  if (domain == kInternal) return 1;
  auto found = opset_imports.find(domain);
  return found == opset_imports.end() ? 0 : found->second;
}

ValueId Graph::AddValue(std::string value_name, ValueType type) {
  const ValueId id{static_cast<int32_t>(values_.size())};
  if (!by_name_.emplace(value_name, id).second) {
    Throw(ErrorCode::kInvalidGraph, "the name \"{}\" is taken twice",
          value_name);
  }
  Value& value = values_.emplace_back();
  value.name = std::move(value_name);
  value.type = std::move(type);
  return id;
}

ValueId Graph::AddInput(std::string value_name, ValueType type) {
  const ValueId id = AddValue(std::move(value_name), std::move(type));
  values_[id.index].is_input = true;
  inputs_.push_back(id);
  return id;
}

ValueId Graph::AddInitializer(TensorData data) {
  ValueId id = Find(data.name);
  if (!id) {
    std::vector<Dimension> dims;
    for (int64_t d : data.dims) dims.push_back({.value = d, .symbol = {}});
    id = AddValue(data.name, ValueType::OfTensor(data.type, std::move(dims)));
  } else if (value(id).initializer || value(id).producer || value(id).outer) {
    Throw(ErrorCode::kInvalidGraph, "the name \"{}\" is taken twice",
          data.name);
  } else if (value(id).type.kind == ValueType::Kind::kUnknown) {
    std::vector<Dimension> dims;
    for (int64_t d : data.dims) dims.push_back({.value = d, .symbol = {}});
    value(id).type = ValueType::OfTensor(data.type, std::move(dims));
  }
  values_[id.index].initializer = std::move(data);
  initializers_.push_back(id);
  return id;
}

void Graph::MarkOutput(ValueId id) {
  values_[id.index].is_output = true;
  outputs_.push_back(id);
}

void Graph::SetOutputs(std::vector<ValueId> outputs) {
  for (ValueId id : outputs_) values_[id.index].is_output = false;
  outputs_ = std::move(outputs);
  for (ValueId id : outputs_) values_[id.index].is_output = true;
}

void Graph::SetInputs(std::vector<ValueId> inputs) {
  for (ValueId id : inputs_) values_[id.index].is_input = false;
  inputs_ = std::move(inputs);
  for (ValueId id : inputs_) {
    Value& value = values_[id.index];
    if (value.is_input || value.producer) {
      Throw(ErrorCode::kInvalidGraph, "the input \"{}\" is defined twice",
            value.name);
    }
    value.is_input = true;
  }
}

ValueId Graph::Find(std::string_view wanted) const {
  auto found = by_name_.find(std::string(wanted));
  return found == by_name_.end() ? ValueId{} : found->second;
}

void Graph::Rename(ValueId id, std::string new_name) {
  if (value(id).name == new_name) return;
  if (!by_name_.emplace(new_name, id).second) {
    Throw(ErrorCode::kInvalidGraph, "the name \"{}\" is taken twice", new_name);
  }
  by_name_.erase(value(id).name);
  value(id).name = std::move(new_name);
}

std::string Graph::FreshName(std::string_view stem) const {
  const std::string base(stem.empty() ? "value" : stem);
  auto taken = [this](const std::string& candidate) {
    return by_name_.contains(candidate) || inner_names_.contains(candidate);
  };
  if (!taken(base)) return base;
  auto numbered = [&](uint64_t n) { return fmt::format("{}_{}", base, n); };
  // Numbers are mostly taken without gaps: double until one is free, then
  // halve the gap, so that a long run of names costs few look-ups.
  uint64_t free = 1, used = 0;
  while (taken(numbered(free))) used = std::exchange(free, free * 2);
  while (free - used > 1) {
    const uint64_t middle = used + (free - used) / 2;
    (taken(numbered(middle)) ? used : free) = middle;
  }
  return numbered(free);
}

const std::string& Graph::value_name(ValueId id) const {
  static const std::string none;
  return id ? values_[id.index].name : none;
}

void Graph::RemoveInitializer(ValueId id) {
  values_[id.index].initializer.reset();
  std::erase(initializers_, id);
}

NodeId Graph::AddNode(Node node) {
  return InsertNode(order_.size(), std::move(node));
}

NodeId Graph::InsertNode(size_t position, Node node) {
  for (ValueId output : node.outputs) {
    if (!output) continue;
    const Value& value = values_[output.index];
    if (value.producer || value.is_input || value.initializer || value.outer) {
      Throw(ErrorCode::kInvalidGraph,
            "{} gives \"{}\", which already has a value", Describe(*this, node),
            value.name);
    }
  }
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  for (ValueId output : node.outputs)
    if (output) values_[output.index].producer = id;
  ForEachSubgraph(node, [this](const Graph& graph) { KeepNames(graph); });
  nodes_.push_back(std::move(node));
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(position), id);
  return id;
}

void Graph::KeepNames(const Graph& subgraph) {
  for (const Value& value : subgraph.values_) inner_names_.insert(value.name);
  inner_names_.insert(subgraph.inner_names_.begin(),
                      subgraph.inner_names_.end());
}

void Graph::RemoveNode(NodeId id) {
  Node& node = nodes_[id.index];
  node.removed = true;
  for (ValueId output : node.outputs)
    if (output) values_[output.index].producer = NodeId{};
  std::erase(order_, id);
}

std::vector<std::string> Graph::OuterUses() const {
  std::vector<std::string> uses;
  auto use = [&](ValueId id) {
    if (id && values_[id.index].outer) uses.push_back(values_[id.index].name);
  };
  for (NodeId id : order_) {
    const Node& node = nodes_[id.index];
    for (ValueId input : node.inputs) use(input);
    ForEachSubgraph(node, [&](const Graph& inner) {
      for (const std::string& used : inner.OuterUses()) {
        const ValueId here = Find(used);
        // A name that this graph lacks is of a graph further out.
        if (here) use(here);
        if (!here) uses.push_back(used);
      }
    });
  }
  for (ValueId output : outputs_) use(output);
  return uses;
}

std::vector<ValueId> Graph::Reads(const Node& node) const {
  std::vector<ValueId> reads;
  for (ValueId input : node.inputs)
    if (input) reads.push_back(input);
  ForEachSubgraph(node, [&](const Graph& inner) {
    for (const std::string& used : inner.OuterUses())
      if (ValueId id = Find(used)) reads.push_back(id);
  });
  return reads;
}

void Graph::RenameOuter(const std::string& from, const std::string& to) {
  for (Node& node : nodes_) {
    if (!node.removed) RenameInSubgraphs(node, from, to);
  }
  const ValueId old = Find(from);
  if (!old || !values_[old.index].outer) return;
  ValueId target = Find(to);
  if (target && !values_[target.index].outer) {
    // The sub-graph has a value of its own under that name: it gives way.
    Value& own = values_[target.index];
    own.name = FreshName(to);
    by_name_.erase(to);
    by_name_.emplace(own.name, target);
    target = ValueId{};
  }
  if (!target) {
    by_name_.erase(from);
    values_[old.index].name = to;
    by_name_.emplace(to, old);
    return;
  }
  ReplaceHere(old, target);
}

void Graph::RenameInSubgraphs(Node& node, const std::string& from,
                              const std::string& to) {
  using GraphPtr = std::shared_ptr<const Graph>;
  auto rename = [&](GraphPtr& graph) {
    if (!graph) return;
    const std::vector<std::string> uses = graph->OuterUses();
    if (std::find(uses.begin(), uses.end(), from) == uses.end()) return;
    auto copy = std::make_shared<Graph>(*graph);
    copy->RenameOuter(from, to);
    graph = std::move(copy);
  };
  for (Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<GraphPtr>(&attribute.value)) {
      rename(*one);
    } else if (auto* many =
                   std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
      for (GraphPtr& graph : *many) rename(graph);
    }
  }
}

void Graph::ReplaceHere(ValueId from, ValueId to) {
  for (NodeId id : order_) {
    std::vector<ValueId>& inputs = nodes_[id.index].inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
  }
  if (values_[from.index].is_output) {
    std::replace(outputs_.begin(), outputs_.end(), from, to);
    values_[from.index].is_output = false;
    values_[to.index].is_output = true;
  }
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  ReplaceHere(from, to);
  for (NodeId id : order_) {
    RenameInSubgraphs(nodes_[id.index], values_[from.index].name,
                      values_[to.index].name);
  }
}

std::vector<std::vector<NodeId>> Graph::Consumers() const {
  std::vector<std::vector<NodeId>> consumers(values_.size());
  for (NodeId id : order_)
    for (ValueId read : Reads(nodes_[id.index]))
      consumers[read.index].push_back(id);
  return consumers;
}

void Graph::SortNodes() {
  // Kahn's algorithm; of the nodes that are ready the first in the given
  // order comes next, so an order that is already right stays.
  std::vector<int> waits_for(nodes_.size());
  std::vector<std::vector<size_t>> readers(nodes_.size());  // places
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t place = 0; place < order_.size(); ++place) {
    const Node& node = nodes_[order_[place].index];
    int& count = waits_for[order_[place].index];
    for (ValueId read : Reads(node)) {
      CheckHasSource(read, &node);
      const NodeId producer = values_[read.index].producer;
      if (!producer) continue;
      readers[producer.index].push_back(place);
      ++count;
    }
    if (count == 0) ready.push(place);
  }
  for (ValueId output : outputs_) CheckHasSource(output, nullptr);

  std::vector<NodeId> sorted;
  sorted.reserve(order_.size());
  while (!ready.empty()) {
    const NodeId next = order_[ready.top()];
    ready.pop();
    sorted.push_back(next);
    for (size_t place : readers[next.index])
      if (--waits_for[order_[place].index] == 0) ready.push(place);
  }
  if (sorted.size() != order_.size()) ThrowCycle(waits_for);
  order_ = std::move(sorted);
}

void Graph::CheckHasSource(ValueId id, const Node* reader) const {
  const Value& value = values_[id.index];
  if (value.producer || value.is_input || value.initializer || value.outer ||
      value.is_sparse_initializer) {
    return;
  }
  if (reader == nullptr) {
    Throw(ErrorCode::kInvalidGraph,
          "the output \"{}\" comes from nowhere: no node, input or "
          "initializer has that name",
          value.name);
  }
  Throw(ErrorCode::kInvalidGraph,
        "{} reads \"{}\", which comes from nowhere: no node, input or "
        "initializer has that name",
        Describe(*this, *reader), value.name);
}

void Graph::ThrowCycle(const std::vector<int>& waits_for) const {
  // From any waiting node, going back to a producer that waits too must
  // come round.
  auto waiting_producer = [&](NodeId id) {
    for (ValueId read : Reads(nodes_[id.index])) {
      const NodeId producer = values_[read.index].producer;
      if (producer && waits_for[producer.index] > 0) return producer;
    }
    return NodeId{};
  };
  NodeId at;
  for (NodeId id : order_)
    if (waits_for[id.index] > 0) at = id;
  std::vector<NodeId> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = waiting_producer(at);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  std::string text;
  constexpr size_t kMostNamed = 10;
  for (size_t i = 0; i < path.size() && i < kMostNamed; ++i) {
    if (i > 0) text += " -> ";
    text += Describe(*this, nodes_[path[i].index]);
  }
  if (path.size() > kMostNamed)
    text += fmt::format(" -> {} more", path.size() - kMostNamed);
  Throw(ErrorCode::kInvalidGraph, "the graph has a cycle: {}", text);
}

std::string Describe(const Graph& graph, const Node& node) {
  const std::string& op = node.op_type;
  if (!node.name.empty()) return fmt::format("[{} \"{}\"]", op, node.name);
  for (ValueId output : node.outputs)
    if (output) return fmt::format("[{} \"{}\"]", op, graph.value_name(output));
  return fmt::format("[{}]", op);
}

}  // namespace strop
