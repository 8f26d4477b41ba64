// SPDX-License-Identifier: Apache-2.0
//
// Local functions: a call is replaced by a copy of the function's body.
#include <algorithm>
#include <functional>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <unordered_set>

#include "base/throw.h"
#include "graph/onnx_io_wire.h"
#include "graph/opset_forms.h"
#include "graph/subgraphs.h"

namespace strop::onnx {
namespace {

using GraphPtr = std::shared_ptr<const Graph>;
using FunctionKey = std::tuple<std::string, std::string, std::string>;

// Functions that call functions can grow without bound.
constexpr size_t kMostNodes = size_t{1} << 19;

// Ops whose meaning changed at a version; a body of the other side of it
// cannot become part of the graph.
struct Boundary {
  std::string_view op;
  int64_t version;
};
constexpr Boundary kBoundaries[] = {
    {"GridSample", 20}, {"GroupNormalization", 21},
    {"Hardmax", 13},    {"LogSoftmax", 13},
    {"Resize", 11},     {"RoiAlign", 16},
    {"Scan", 9},        {"Softmax", 13}};

// Gives a tensor another name, in its encoded form too.
void Rename(TensorData& tensor, const std::string& name) {
  tensor.name = name;
  if (tensor.encoded.empty()) return;
  auto encoded = std::make_shared<std::string>(tensor.encoded);
  // The last of two names counts.
  protozero::pbf_writer(*encoded).add_string(tensor_field::kName, name);
  tensor.encoded = *encoded;
  tensor.encoded_owner = std::move(encoded);
}

class Inliner {
 public:
  Inliner(Model& model, ReadContext& context)
      : model_(model), context_(context) {
    for (size_t i = 0; i < model.functions.size(); ++i) {
      const ModelFunction& f = model.functions[i];
      by_name_.emplace(FunctionKey{f.domain, f.name, f.overload}, i);
    }
    states_.resize(model.functions.size());
  }

  void Run() {
    InlineGraph(model_.graph);
    model_.functions.clear();
  }

 private:
  struct State {
    std::optional<Function> function;  // with all calls in its body replaced
    bool in_progress = false;
  };

  // One call: where its copies go and what they are named after.
  struct Call {
    const Node& node;
    const Function& function;
    std::string prefix;
  };

  // Gives the new name of a value of the graph around; empty: left out.
  using OuterName = std::function<std::string(const std::string&)>;

  void InlineGraph(Graph& graph);
  void InlineSubgraphs(Node& node);
  std::optional<size_t> FindFunction(const Node& node) const;
  const Function& Ready(size_t index);
  void CheckVersions(const Function& function, const ModelFunction& named);
  void Expand(Graph& graph, const Node& call, const Function& function,
              std::vector<NodeId>& order);
  Node CopyNode(const Node& node, const Call& call, const OuterName& outer,
                std::span<const ValueId> map);
  std::optional<Attribute> CopyAttribute(const Attribute& attribute,
                                         const Call& call,
                                         const OuterName& outer);
  Graph CopySubgraph(const Graph& source, const Call& call,
                     const OuterName& outer);
  std::string UniqueName(const Graph& graph, const std::string& stem);

  Model& model_;
  ReadContext& context_;
  std::map<FunctionKey, size_t> by_name_;
  std::vector<State> states_;
  std::unordered_set<std::string> made_names_;
  size_t made_nodes_ = 0;
};

std::optional<size_t> Inliner::FindFunction(const Node& node) const {
  auto found =
      by_name_.find(FunctionKey{node.domain, node.op_type, node.overload});
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

const Function& Inliner::Ready(size_t index) {
  State& state = states_[index];
  const ModelFunction& named = model_.functions[index];
  if (state.in_progress) {
    Throw(ErrorCode::kInvalidGraph, "the local function \"{}\" calls itself",
          named.name);
  }
  if (!state.function) {
    state.in_progress = true;
    const std::string who = fmt::format("function \"{}\"", named.name);
    Function function =
        DecodeFunction(named.encoded, Where{nullptr, who}, context_);
    CheckVersions(function, named);
    InlineGraph(function.body);
    state.function = std::move(function);
    state.in_progress = false;
  }
  return *state.function;
}

void Inliner::CheckVersions(const Function& function,
                            const ModelFunction& named) {
  Graph& graph = model_.graph;
  const int64_t ours = graph.opset(kOnnx);
  const int64_t theirs = function.body.opset(kOnnx);
  for (const auto& [domain, version] : function.body.opset_imports)
    graph.opset_imports.emplace(domain, version);
  if (theirs == 0 || ours == 0 || theirs == ours) return;
  for (const NodeId id : function.body.order()) {
    const Node& node = function.body.node(id);
    for (const Boundary& row : kBoundaries) {
      const bool crossed = (theirs < row.version) != (ours < row.version);
      if (crossed && node.domain.empty() && node.op_type == row.op) {
        Throw(ErrorCode::kNotImplemented,
              "{} of the local function \"{}\" means another thing in opset "
              "{} of the function than in opset {} of the model",
              Describe(function.body, node), named.name, theirs, ours);
      }
    }
  }
}

std::string Inliner::UniqueName(const Graph& graph, const std::string& stem) {
  std::string name = graph.FreshName(stem);
  for (int i = 1; model_.graph.Find(name) || !made_names_.insert(name).second;
       ++i) {
    name = graph.FreshName(fmt::format("{}_{}", stem, i));
  }
  return name;
}

void Inliner::InlineSubgraphs(Node& node) {
  RewriteSubgraphs(node, [&](Graph& graph) { InlineGraph(graph); });
}

void Inliner::InlineGraph(Graph& graph) {
  std::vector<NodeId> order;
  const std::vector<NodeId> before(graph.order().begin(), graph.order().end());
  for (const NodeId id : before) {
    InlineSubgraphs(graph.node(id));
    const std::optional<size_t> index = FindFunction(graph.node(id));
    if (!index) {
      order.push_back(id);
      continue;
    }
    const Function& function = Ready(*index);
    const Node call = graph.node(id);
    graph.RemoveNode(id);
    Expand(graph, call, function, order);
  }
  graph.SetOrder(std::move(order));
}

void Inliner::Expand(Graph& graph, const Node& node, const Function& function,
                     std::vector<NodeId>& order) {
  const Graph& body = function.body;
  made_nodes_ += body.order().size();
  if (made_nodes_ > kMostNodes) {
    Throw(ErrorCode::kInvalidGraph,
          "the calls of local functions make more than {} nodes", kMostNodes);
  }
  if (node.inputs.size() > body.inputs().size() ||
      node.outputs.size() > body.outputs().size()) {
    Throw(ErrorCode::kInvalidGraph,
          "{} has {} inputs and {} outputs, the local function has {} and {}",
          Describe(graph, node), node.inputs.size(), node.outputs.size(),
          body.inputs().size(), body.outputs().size());
  }
  const Call call{node, function, node.name.empty() ? node.op_type : node.name};
  std::vector<ValueId> map(body.value_count());
  for (size_t i = 0; i < body.inputs().size(); ++i)
    map[body.inputs()[i].index] = node.input(i);
  // An output that is an input, or stands twice, needs a node of its own.
  std::vector<std::pair<ValueId, ValueId>> copies;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId to = node.output(i);
    if (!to) continue;
    const ValueId from = body.outputs()[i];
    ValueId& mapped = map[from.index];
    if (body.value(from).is_input || mapped) {
      copies.emplace_back(mapped, to);
    } else {
      mapped = to;
    }
  }
  for (size_t i = 0; i < body.value_count(); ++i) {
    const Value& value = body.value({static_cast<int32_t>(i)});
    if (map[i] || value.is_input) continue;
    map[i] = graph.AddValue(UniqueName(graph, call.prefix + '_' + value.name));
  }
  const OuterName outer = [&](const std::string& name) {
    return graph.value_name(map[body.Find(name).index]);
  };
  for (const NodeId id : body.order())
    order.push_back(graph.AddNode(CopyNode(body.node(id), call, outer, map)));
  for (const auto& [from, to] : copies) {
    if (!from) {
      Throw(ErrorCode::kInvalidGraph,
            "{} takes an output from an input that is left out",
            Describe(graph, node));
    }
    Node identity;
    identity.op_type = "Identity";
    identity.inputs = {from};
    identity.outputs = {to};
    order.push_back(graph.AddNode(std::move(identity)));
  }
}

Node Inliner::CopyNode(const Node& node, const Call& call,
                       const OuterName& outer, std::span<const ValueId> map) {
  Node copy;
  copy.op_type = node.op_type;
  copy.domain = node.domain;
  copy.overload = node.overload;
  copy.unknown = node.unknown;
  if (!node.name.empty()) copy.name = call.prefix + '_' + node.name;
  auto mapped = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> result;
    for (const ValueId id : ids)
      result.push_back(id ? map[id.index] : ValueId{});
    return result;
  };
  copy.inputs = mapped(node.inputs);
  copy.outputs = mapped(node.outputs);
  for (const Attribute& attribute : node.attributes) {
    std::optional<Attribute> made = CopyAttribute(attribute, call, outer);
    if (made) copy.attributes.push_back(std::move(*made));
  }
  return copy;
}

std::optional<Attribute> Inliner::CopyAttribute(const Attribute& attribute,
                                                const Call& call,
                                                const OuterName& outer) {
  if (!attribute.ref_attr_name.empty()) {
    const Attribute* given = call.node.FindAttribute(attribute.ref_attr_name);
    if (given == nullptr) {
      for (const Attribute& fallback : call.function.defaults)
        if (fallback.name == attribute.ref_attr_name) given = &fallback;
    }
    // Neither given nor with a default: the op's own default counts.
    if (given == nullptr) return std::nullopt;
    Attribute made = *given;
    made.name = attribute.name;
    return made;
  }
  Attribute copy = attribute;
  if (auto* one = std::get_if<GraphPtr>(&copy.value)) {
    *one = std::make_shared<const Graph>(CopySubgraph(**one, call, outer));
  } else if (auto* many = std::get_if<std::vector<GraphPtr>>(&copy.value)) {
    for (GraphPtr& graph : *many)
      graph = std::make_shared<const Graph>(CopySubgraph(*graph, call, outer));
  }
  return copy;
}

Graph Inliner::CopySubgraph(const Graph& source, const Call& call,
                            const OuterName& outer) {
  Graph copy;
  copy.name = source.name;
  copy.unknown = source.unknown;
  copy.opset_imports = model_.graph.opset_imports;
  copy.file_spelling = source.file_spelling;
  std::vector<ValueId> map(source.value_count());
  for (size_t i = 0; i < map.size(); ++i) {
    const Value& value = source.value({static_cast<int32_t>(i)});
    if (value.is_sparse_initializer) {
      Throw(ErrorCode::kNotImplemented,
            "the sparse initializer \"{}\" inside a local function",
            value.name);
    }
    if (value.outer) {
      const std::string name = outer(value.name);
      if (name.empty()) continue;
      map[i] = copy.Find(name);  // two names may be one value now
      if (!map[i]) map[i] = copy.AddValue(name, value.type);
      copy.value(map[i]).outer = true;
      continue;
    }
    map[i] = copy.AddValue(UniqueName(copy, call.prefix + '_' + value.name),
                           value.type);
    copy.value(map[i]).has_value_info = value.has_value_info;
    copy.value(map[i]).unknown = value.unknown;
  }
  auto mapped = [&](std::span<const ValueId> ids) {
    std::vector<ValueId> result;
    for (const ValueId id : ids) result.push_back(map[id.index]);
    return result;
  };
  copy.SetInputs(mapped(source.inputs()));
  for (const ValueId id : source.initializers()) {
    TensorData data = *source.value(id).initializer;
    Rename(data, copy.value_name(map[id.index]));
    copy.AddInitializer(std::move(data));
  }
  const OuterName inner = [&](const std::string& name) {
    return copy.value_name(map[source.Find(name).index]);
  };
  for (const NodeId id : source.order())
    copy.AddNode(CopyNode(source.node(id), call, inner, map));
  copy.SetOutputs(mapped(source.outputs()));
  return copy;
}

}  // namespace

void InlineFunctions(Model& model, ReadContext& context) {
  Inliner(model, context).Run();
}

}  // namespace strop::onnx
