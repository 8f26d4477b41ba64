// SPDX-License-Identifier: Apache-2.0
#include "autodiff/control_flow.h"

#include <algorithm>
#include <set>

#include "base/throw.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"
#include "strop/op.h"

namespace strop {
namespace {

using GraphPtr = std::shared_ptr<const Graph>;
using Contribute = std::function<void(ValueId, ValueId)>;

constexpr int64_t kScanWithoutBatch = 9;

// The value of that name in a sub-graph, which is captured if it is not there.
ValueId Captured(Graph& body, const Graph& around, ValueId value) {
  const std::string& name = around.value_name(value);
  if (const ValueId there = body.Find(name)) return there;
  ValueType type = around.value(value).type;
  type.encoded.clear();
  const ValueId id = body.AddValue(name, std::move(type));
  body.value(id).outer = true;
  return id;
}

void RemoveUnneeded(Graph& body) {
  std::vector<bool> needed(body.value_count());
  for (const ValueId id : body.outputs())
    needed[static_cast<size_t>(id.index)] = true;
  const std::vector<NodeId> order(body.order().begin(), body.order().end());
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = body.node(*id);
    const bool keep = std::ranges::any_of(node.outputs, [&](ValueId output) {
      return output && needed[static_cast<size_t>(output.index)];
    });
    if (!keep) {
      body.RemoveNode(*id);
      continue;
    }
    for (const ValueId read : body.Reads(node))
      needed[static_cast<size_t>(read.index)] = true;
  }
}

// The gradient as an output of the body: a value of its own, under a name
// that nobody around has.
ValueId AsOutput(Graph& body, ValueId gradient, const std::string& name) {
  GraphBuilder builder(body, name + "/");
  const ValueId copy = builder.Op("Identity", {builder.Of(gradient)}).id;
  body.Rename(copy, body.FreshName(name));
  return copy;
}

void Import(Graph& graph, const Graph& body) {
  for (const auto& [domain, version] : body.opset_imports)
    graph.opset_imports.emplace(domain, version);
}

std::string NameOf(const Graph& graph, const Node& node) {
  return node.name.empty() ? graph.value_name(node.outputs[0]) : node.name;
}

bool IsFloat(const Graph& graph, ValueId id) {
  return graph.value(id).type.kind == ValueType::Kind::kTensor &&
         IsDifferentiable(graph, id);
}

// --- If

void DifferentiateIf(Graph& graph, NodeId id, const Reach& reach,
                     const std::vector<ValueId>& output_gradients,
                     const DifferentiateOptions& options,
                     const Contribute& contribute) {
  const Node forward = graph.node(id);
  const std::string prefix = NameOf(graph, forward) + "_Grad/";
  std::vector<ValueId> captured;
  for (const ValueId value : CapturedBy(graph, forward))
    if (reach.Reaches(value)) captured.push_back(value);

  Node node;
  node.name = prefix + "If_0";
  node.op_type = "If";
  node.inputs = forward.inputs;
  for (const auto& [attribute, branch] : BodiesOf(forward)) {
    Graph body = TypedBody(graph, *branch);
    std::vector<ValueId> outputs, seeds, wrt;
    const std::vector<ValueId> all(body.outputs().begin(),
                                   body.outputs().end());
    for (size_t i = 0; i < output_gradients.size(); ++i) {
      if (!output_gradients[i]) continue;
      outputs.push_back(all[i]);
      seeds.push_back(Captured(body, graph, output_gradients[i]));
    }
    for (const ValueId value : captured)
      wrt.push_back(Captured(body, graph, value));
    std::vector<ValueId> gradients =
        Differentiate(body, outputs, seeds, wrt, options);
    GraphBuilder builder(body, prefix + attribute + "/");
    for (size_t k = 0; k < wrt.size(); ++k) {
      // A branch that does not read the value.
      if (!gradients[k])
        gradients[k] = builder.ZerosLike(builder.Of(wrt[k])).id;
      gradients[k] = AsOutput(body, gradients[k],
                              fmt::format("{}{}/{}_grad", prefix, attribute,
                                          graph.value_name(captured[k])));
    }
    body.SetOutputs(gradients);
    RemoveUnneeded(body);
    Import(graph, body);
    node.SetAttribute(attribute,
                      std::make_shared<const Graph>(std::move(body)));
  }
  std::vector<ValueId> results;
  for (const ValueId value : captured) {
    ValueType type = graph.value(value).type;
    type.encoded.clear();
    results.push_back(graph.AddValue(
        graph.FreshName(prefix + graph.value_name(value) + "_grad"),
        std::move(type)));
  }
  node.outputs = results;
  graph.AddNode(std::move(node));
  for (size_t k = 0; k < captured.size(); ++k)
    contribute(captured[k], results[k]);
}

// --- Loop and Scan

// What the two have in common: a body, states that go round, scanned inputs
// and stacked outputs.
struct Iteration {
  // Of the node: the value that a body input begins with or scans; invalid
  // where the op makes it (iteration number, condition).
  std::vector<ValueId> sources;   // by body input
  std::vector<bool> is_state;     // by body input
  std::vector<int64_t> in_axes;   // by body input, of scanned ones
  std::vector<bool> in_reversed;  // by body input, of scanned ones
  size_t first_output = 0;        // body output that is the node's output 0
  size_t states = 0;              // node outputs that are last states
  std::vector<int64_t> out_axes;  // by node output, of stacked ones
  std::vector<bool> out_reversed;
};

int64_t At(std::span<const int64_t> list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

Iteration ReadScan(const Graph& graph, const Node& node, size_t body_inputs) {
  const OpNode op(graph, node);
  if (graph.opset(kOnnx) < kScanWithoutBatch)
    op.Fail("has no gradient below opset 9", ErrorCode::kNotImplemented);
  Iteration it;
  const auto scanned =
      static_cast<size_t>(op.Int("num_scan_inputs")) > body_inputs
          ? body_inputs
          : static_cast<size_t>(op.Int("num_scan_inputs"));
  it.states = body_inputs - scanned;
  it.sources = node.inputs;
  for (size_t i = 0; i < body_inputs; ++i) {
    const bool state = i < it.states;
    const size_t scan = state ? 0 : i - it.states;
    it.is_state.push_back(state);
    it.in_axes.push_back(state ? 0 : At(op.Ints("scan_input_axes"), scan));
    it.in_reversed.push_back(!state &&
                             At(op.Ints("scan_input_directions"), scan) != 0);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool state = i < it.states;
    const size_t scan = state ? 0 : i - it.states;
    it.out_axes.push_back(state ? 0 : At(op.Ints("scan_output_axes"), scan));
    it.out_reversed.push_back(!state &&
                              At(op.Ints("scan_output_directions"), scan) != 0);
  }
  return it;
}

Iteration ReadLoop(const Graph& graph, const Node& node, size_t body_inputs) {
  if (graph.opset(kOnnx) < kScanWithoutBatch) {
    OpNode(graph, node)
        .Fail("has no gradient below opset 9", ErrorCode::kNotImplemented);
  }
  Iteration it;
  it.first_output = 1;  // the condition is no output of the node
  it.states = body_inputs - 2;
  for (size_t i = 0; i < body_inputs; ++i) {
    it.sources.push_back(i < 2 ? ValueId{} : node.input(i));
    it.is_state.push_back(true);
    it.in_axes.push_back(0);
    it.in_reversed.push_back(false);
  }
  it.out_axes.assign(node.outputs.size(), 0);
  it.out_reversed.assign(node.outputs.size(), false);
  return it;
}

class IterationGradient {
 public:
  IterationGradient(Graph& graph, NodeId id, const Reach& reach,
                    const std::vector<ValueId>& output_gradients,
                    const DifferentiateOptions& options,
                    const Contribute& contribute)
      : graph_(graph),
        id_(id),
        reach_(reach),
        output_gradients_(output_gradients),
        options_(options),
        contribute_(contribute),
        prefix_(NameOf(graph, graph.node(id)) + "_Grad/"),
        builder_(graph, prefix_) {}

  void Run() {
    const Node& node = graph_.node(id_);
    const GraphPtr forward = BodiesOf(node).at(0).second;
    const size_t inputs = forward->inputs().size();
    is_scan_ = node.op_type == "Scan";
    it_ = is_scan_ ? ReadScan(graph_, node, inputs)
                   : ReadLoop(graph_, node, inputs);
    body_ = TypedBody(graph_, *forward);
    TypeInputs();
    for (const ValueId value : CapturedBy(graph_, node))
      if (reach_.Reaches(value)) captured_.push_back(value);
    const std::vector<ValueId> kept = KeepStates(*forward);
    MakeBody();
    AddScan(kept);
  }

 private:
  // Body inputs have the types of what the node gives them.
  void TypeInputs() {
    for (size_t i = 0; i < body_.inputs().size(); ++i) {
      ValueType& type = body_.value(body_.inputs()[i]).type;
      const ValueId source = it_.sources[i];
      if (!source || type.dims) continue;
      type = graph_.value(source).type;
      type.encoded.clear();
      if (it_.is_state[i] || !type.dims || type.dims->empty()) continue;
      int64_t axis = it_.in_axes[i];
      const auto rank = static_cast<int64_t>(type.dims->size());
      if (axis < -rank || axis >= rank) {
        OpNode(graph_, graph_.node(id_))
            .Fail(fmt::format("scans axis {} of rank {}", axis, rank));
      }
      if (axis < 0) axis += rank;
      type.dims->erase(type.dims->begin() + axis);
    }
  }

  // Makes the forward node put out what enters each iteration; returns, by
  // body input, the stack of it (scanned inputs are there already).
  std::vector<ValueId> KeepStates(const Graph& forward) {
    Graph body = forward;
    std::vector<ValueId> outputs(body.outputs().begin(), body.outputs().end());
    // What the node leaves out has its place all the same.
    graph_.node(id_).outputs.resize(outputs.size() - it_.first_output);
    std::vector<ValueId> kept;
    size_t added = 0;
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      if (!it_.is_state[i]) {
        kept.push_back(it_.sources[i]);
        continue;
      }
      const ValueId input = body.inputs()[i];
      const std::string name = prefix_ + body.value_name(input);
      outputs.push_back(AsOutput(body, input, name + "_of_iteration"));
      const ValueId stack = graph_.AddValue(
          graph_.FreshName(name + "_of_iterations"),
          ValueType::OfTensor(body_.value(body_.inputs()[i]).type.element,
                              std::nullopt));
      Node& node = graph_.node(id_);
      node.outputs.push_back(stack);
      graph_.value(stack).producer = id_;
      kept.push_back(stack);
      ++added;
    }
    body.SetOutputs(outputs);
    Node& node = graph_.node(id_);
    node.SetAttribute("body", std::make_shared<const Graph>(std::move(body)));
    for (const char* list : {"scan_output_axes", "scan_output_directions"}) {
      const Attribute* attribute = node.FindAttribute(list);
      if (attribute == nullptr) continue;
      auto values = std::get<std::vector<int64_t>>(attribute->value);
      values.insert(values.end(), added, 0);
      node.SetAttribute(list, values);
    }
    return kept;
  }

  ValueId BodyInput(const std::string& name, const ValueType& type) {
    ValueType clean = type;
    clean.encoded.clear();
    return body_.AddValue(body_.FreshName(prefix_ + name), std::move(clean));
  }

  // The forward body becomes that of the backward Scan. Its inputs: gradients
  // of states, sums of those of captured values, what entered the iteration,
  // gradients of stacked outputs.
  void MakeBody() {
    const std::vector<ValueId> inputs(body_.inputs().begin(),
                                      body_.inputs().end());
    const std::vector<ValueId> outs(body_.outputs().begin(),
                                    body_.outputs().end());
    std::vector<ValueId> outputs, seeds, wrt, sums, stacked;
    const size_t first_state = inputs.size() - it_.states -
                               (is_scan_ ? inputs.size() - it_.states : 0);
    for (size_t i = 0; i < it_.states; ++i) {
      const ValueId state = inputs[first_state + i];
      if (!IsFloat(body_, state)) continue;
      float_states_.push_back(i);
      state_inputs_.push_back(first_state + i);
      outputs.push_back(outs[it_.first_output + i]);
      seeds.push_back(BodyInput(body_.value_name(state) + "_grad_next",
                                body_.value(state).type));
      wrt.push_back(state);
    }
    const size_t states = wrt.size();
    for (size_t i = it_.states; i < output_gradients_.size(); ++i) {
      if (!output_gradients_[i]) continue;
      const ValueId out = outs[it_.first_output + i];
      stacked_.push_back(i);
      stacked.push_back(BodyInput(body_.value_name(out) + "_grad_of_iteration",
                                  body_.value(out).type));
      outputs.push_back(out);
      seeds.push_back(stacked.back());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (it_.is_state[i] || !reach_.Needs(id_, i)) continue;
      scanned_.push_back(i);
      wrt.push_back(inputs[i]);
    }
    const size_t before_captured = wrt.size();
    for (const ValueId value : captured_) {
      wrt.push_back(Captured(body_, graph_, value));
      sums.push_back(BodyInput(graph_.value_name(value) + "_grad_sum",
                               graph_.value(value).type));
    }
    std::vector<ValueId> body_inputs(
        seeds.begin(), seeds.begin() + static_cast<std::ptrdiff_t>(states));
    for (const std::vector<ValueId>& more : {sums, inputs, stacked})
      body_inputs.insert(body_inputs.end(), more.begin(), more.end());
    body_.SetInputs(body_inputs);

    std::vector<ValueId> gradients =
        Differentiate(body_, outputs, seeds, wrt, options_);
    GraphBuilder builder(body_, prefix_ + "body/");
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (!gradients[i])
        gradients[i] = builder.ZerosLike(builder.Of(wrt[i])).id;
      if (i >= before_captured) {
        const Var sum = builder.Of(sums[i - before_captured]);
        gradients[i] = (sum + builder.Of(gradients[i])).id;
      }
      gradients[i] = AsOutput(
          body_, gradients[i],
          fmt::format("{}body/{}_grad_out", prefix_, body_.value_name(wrt[i])));
    }
    // States first: gradients of states, sums; then what is stacked.
    const auto captured_at =
        gradients.begin() + static_cast<std::ptrdiff_t>(before_captured);
    std::rotate(gradients.begin() + static_cast<std::ptrdiff_t>(states),
                captured_at, gradients.end());
    body_.SetOutputs(gradients);
    RemoveUnneeded(body_);
  }

  Var InitialGradient(size_t state) {
    const ValueId gradient =
        state < output_gradients_.size() ? output_gradients_[state] : ValueId{};
    if (gradient) return builder_.Of(gradient);
    // The shape of a state is that of the value that it begins with.
    const size_t input = state + (is_scan_ ? 0 : 2);
    return builder_.ZerosLike(builder_.Of(it_.sources[input]));
  }

  void AddScan(const std::vector<ValueId>& kept) {
    Import(graph_, body_);
    std::vector<Var> inputs;
    std::vector<DataType> types;
    for (const size_t state : float_states_)
      inputs.push_back(InitialGradient(state));
    for (const ValueId value : captured_)
      inputs.push_back(builder_.ZerosLike(builder_.Of(value)));
    for (const Var input : inputs) types.push_back(builder_.type(input));
    std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
    for (size_t i = 0; i < kept.size(); ++i) {
      inputs.push_back(builder_.Of(kept[i]));
      in_axes.push_back(it_.in_axes[i]);
      in_directions.push_back(it_.in_reversed[i] ? 0 : 1);
    }
    for (const size_t output : stacked_) {
      inputs.push_back(builder_.Of(output_gradients_[output]));
      in_axes.push_back(it_.out_axes[output]);
      in_directions.push_back(it_.out_reversed[output] ? 0 : 1);
    }
    for (const size_t input : scanned_) {
      types.push_back(builder_.type(builder_.Of(it_.sources[input])));
      out_axes.push_back(it_.in_axes[input]);
      out_directions.push_back(it_.in_reversed[input] ? 0 : 1);
    }
    Attributes attributes = {
        {"body", std::make_shared<const Graph>(std::move(body_))},
        {"num_scan_inputs", static_cast<int64_t>(in_axes.size())},
        {"scan_input_axes", in_axes},
        {"scan_input_directions", in_directions}};
    if (!out_axes.empty()) {
      attributes.emplace_back("scan_output_axes", out_axes);
      attributes.emplace_back("scan_output_directions", out_directions);
    }
    const std::vector<Var> results =
        builder_.Ops("Scan", inputs, types, attributes);
    size_t at = 0;
    for (const size_t input : state_inputs_) {
      if (reach_.Needs(id_, input))
        contribute_(it_.sources[input], results[at].id);
      ++at;
    }
    for (const ValueId value : captured_) contribute_(value, results[at++].id);
    for (const size_t input : scanned_)
      contribute_(it_.sources[input], results[at++].id);
  }

  Graph& graph_;
  const NodeId id_;
  const Reach& reach_;
  const std::vector<ValueId>& output_gradients_;
  const DifferentiateOptions& options_;
  const Contribute& contribute_;
  const std::string prefix_;
  GraphBuilder builder_;
  bool is_scan_ = false;
  Iteration it_;
  Graph body_;  // of the backward Scan, in the end
  std::vector<ValueId> captured_;
  std::vector<size_t> float_states_;  // by number among the states
  std::vector<size_t> state_inputs_;  // the same as body inputs
  std::vector<size_t> stacked_;       // node outputs with a gradient
  std::vector<size_t> scanned_;       // body inputs that want one
};

}  // namespace

bool IsControlFlow(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.domain == kOnnx &&
         (node.op_type == "If" || node.op_type == "Loop" ||
          node.op_type == "Scan");
}

std::vector<std::pair<std::string, GraphPtr>> BodiesOf(const Node& node) {
  std::vector<std::pair<std::string, GraphPtr>> bodies;
  for (const Attribute& attribute : node.attributes) {
    const auto* body = std::get_if<GraphPtr>(&attribute.value);
    if (body != nullptr && *body != nullptr)
      bodies.emplace_back(attribute.name, *body);
  }
  return bodies;
}

std::vector<ValueId> CapturedBy(const Graph& graph, const Node& node) {
  std::set<ValueId> captured;
  for (const auto& [name, body] : BodiesOf(node))
    for (const std::string& used : body->OuterUses())
      if (const ValueId id = graph.Find(used)) captured.insert(id);
  return {captured.begin(), captured.end()};
}

namespace {

// A node of the graph or of its sub-graphs that draws; null if there is none.
const Node* Drawing(const Graph& graph,
                    std::span<const CustomOpDomain* const> custom) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op =
        FindOp(node.domain, node.op_type, graph.opset(node.domain), custom);
    // Dropout without training_mode drops nothing.
    const bool still = node.op_type == "Dropout" && !node.input(2);
    if (op != nullptr && op->is_random && !still) return &node;
    for (const auto& [name, body] : BodiesOf(node))
      if (const Node* inner = Drawing(*body, custom)) return inner;
  }
  return nullptr;
}

// "" if inputs and outputs of node and sub-graph fit together.
std::string CountFault(const Node& node, const Graph& body) {
  const size_t inputs = body.inputs().size(), outputs = body.outputs().size();
  if (node.op_type == "If") {
    return inputs == 0 && outputs == node.outputs.size()
               ? ""
               : fmt::format("has {} outputs, a branch {}", node.outputs.size(),
                             outputs);
  }
  const bool is_loop = node.op_type == "Loop";
  size_t states = is_loop && inputs >= 2 ? inputs - 2 : 0;
  if (!is_loop) {
    const Attribute* scanned = node.FindAttribute("num_scan_inputs");
    const auto* count =
        scanned ? std::get_if<int64_t>(&scanned->value) : nullptr;
    if (count == nullptr || *count < 0 || *count > static_cast<int64_t>(inputs))
      return fmt::format("has no num_scan_inputs that fits {} inputs", inputs);
    states = inputs - static_cast<size_t>(*count);
  }
  const size_t first = is_loop ? 1 : 0;
  if (inputs != node.inputs.size() || (is_loop && inputs < 2) ||
      outputs < first + states || node.outputs.size() + first > outputs) {
    return fmt::format(
        "has {} inputs and {} outputs, its body {} and {}: they do not fit",
        node.inputs.size(), node.outputs.size(), inputs, outputs);
  }
  return "";
}

}  // namespace

std::string BodyFault(const Graph& graph, NodeId id,
                      std::span<const CustomOpDomain* const> custom) {
  const Node& node = graph.node(id);
  const auto bodies = BodiesOf(node);
  const size_t wanted = node.op_type == "If" ? 2 : 1;
  if (bodies.size() != wanted || node.outputs.empty() ||
      (node.op_type == "If" && !node.input(0))) {
    return fmt::format("{} lacks a sub-graph, its condition or outputs",
                       Describe(graph, node));
  }
  for (const auto& [name, body] : bodies) {
    const std::string fault = CountFault(node, *body);
    if (!fault.empty())
      return fmt::format("{} {}", Describe(graph, node), fault);
    if (const Node* drawing = Drawing(*body, custom)) {
      return fmt::format(
          "{} draws random numbers inside, in {}: its gradient would draw "
          "others",
          Describe(graph, node), Describe(*body, *drawing));
    }
  }
  return "";
}

Graph TypedBody(const Graph& graph, const Graph& body) {
  Graph typed = body;
  for (size_t i = 0; i < typed.value_count(); ++i) {
    Value& value = typed.value(ValueId{static_cast<int32_t>(i)});
    if (!value.outer) continue;
    if (const ValueId around = graph.Find(value.name)) {
      value.type = graph.value(around).type;
      value.type.encoded.clear();
    }
  }
  return typed;
}

void DifferentiateControlFlow(Graph& graph, NodeId id, const Reach& reach,
                              const std::vector<ValueId>& output_gradients,
                              const DifferentiateOptions& options,
                              const Contribute& contribute) {
  if (graph.node(id).op_type == "If") {
    return DifferentiateIf(graph, id, reach, output_gradients, options,
                           contribute);
  }
  IterationGradient(graph, id, reach, output_gradients, options, contribute)
      .Run();
}

}  // namespace strop
