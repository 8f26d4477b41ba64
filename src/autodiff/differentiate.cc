// SPDX-License-Identifier: Apache-2.0
#include "autodiff/differentiate.h"

#include <algorithm>
#include <map>

#include "autodiff/control_flow.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "ops/gradient.h"
#include "ops/infer_shapes.h"
#include "ops/registry.h"

namespace strop {
namespace {

constexpr size_t kMostBlockersNamed = 20;

class Differentiator {
 public:
  Differentiator(Graph& graph, const Reach& reach,
                 const DifferentiateOptions& options)
      : graph_(graph), reach_(reach), options_(options) {}

  // `gradient` is one of the contributions to d/d(value).
  void Contribute(ValueId value, ValueId gradient) {
    if (!gradient) return;
    contributions_[value].push_back(gradient);
  }

  void Run() {
    const std::vector<NodeId> nodes(graph_.order().begin(),
                                    graph_.order().end());
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id)
      if (reach_.Contains(*id)) RunNode(*id);
  }

  // The sum of all contributions; invalid where there is none.
  ValueId GradientOf(ValueId value) {
    const auto found = contributions_.find(value);
    if (found == contributions_.end()) return {};
    std::vector<ValueId>& parts = found->second;
    const std::string name = graph_.value_name(value) + "_grad";
    if (parts.size() > 1) {
      parts = {AddSum(value, name, parts)};
    } else if (IsNew(parts[0])) {
      NameGradient(parts[0], value, name);
    }
    // A gradient has the shape of its value.
    std::optional<std::vector<Dimension>>& dims =
        graph_.value(parts[0]).type.dims;
    if (!dims) dims = graph_.value(value).type.dims;
    return parts[0];
  }

  // The same under the name <value>_grad, which no other value may share.
  ValueId NamedGradientOf(ValueId value) {
    const std::string name = graph_.value_name(value) + "_grad";
    const ValueId gradient = GradientOf(value);
    if (!gradient || graph_.value_name(gradient) == name) return gradient;
    GraphBuilder builder(graph_, graph_.value_name(value) + "_grad/");
    const ValueId copy = builder.Op("Identity", {builder.Of(gradient)}).id;
    NameGradient(copy, value, name);
    return copy;
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void RunNode(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> output_gradients;
    bool any = false;
    for (const ValueId output : node.outputs) {
      output_gradients.push_back(output ? GradientOf(output) : ValueId{});
      any = any || output_gradients.back();
    }
    if (!any) return;
    if (IsControlFlow(graph_, id)) return RunControlFlow(id, output_gradients);
    std::vector<bool> needs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      needs.push_back(reach_.Needs(id, i));
    const OpDef* op = FindOp(node.domain, node.op_type,
                             graph_.opset(node.domain), options_.custom);
    GraphBuilder builder(graph_, PrefixOf(node));
    GradientContext context(builder, id, needs, std::move(output_gradients));
    const std::vector<ValueId> inputs = node.inputs;
    try {
      op->gradient(context);
    } catch (const Error& error) {
      errors_.push_back(error.what());
      return;
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (needs[i] && context.gradients()[i])
        Contribute(inputs[i], context.gradients()[i]);
  }

  void RunControlFlow(NodeId id, const std::vector<ValueId>& gradients) {
    try {
      DifferentiateControlFlow(graph_, id, reach_, gradients, options_,
                               [this](ValueId value, ValueId gradient) {
                                 Contribute(value, gradient);
                               });
    } catch (const Error& error) {
      errors_.push_back(error.what());
    }
  }

  std::string PrefixOf(const Node& node) const {
    const std::string& name =
        node.name.empty() ? graph_.value_name(node.outputs[0]) : node.name;
    return name + "_Grad/";
  }

  // True for a value that this run has made and not yet named.
  bool IsNew(ValueId id) const {
    return static_cast<size_t>(id.index) >= first_new_ && !named_.contains(id);
  }

  void NameGradient(ValueId gradient, ValueId of, const std::string& name) {
    named_[gradient] = true;
    graph_.Rename(gradient, graph_.FreshName(name));
    Value& made = graph_.value(gradient);
    const DataType element = made.type.element;
    made.type = graph_.value(of).type;
    if (IsQuantized(graph_, of) || made.type.element == DataType::kUndefined) {
      made.type.element = element;
      made.type.kind = ValueType::Kind::kTensor;
    }
    made.type.encoded.clear();
    made.has_value_info = made.type.dims.has_value();
  }

  ValueId AddSum(ValueId value, const std::string& name,
                 std::vector<ValueId> parts) {
    for (size_t k = 0; k < parts.size(); ++k)
      if (IsNew(parts[k]))
        NameGradient(parts[k], value, fmt::format("{}_{}", name, k));
    Node sum;
    sum.name = "AccumulateGrad_" + name;
    sum.op_type = "Sum";
    sum.inputs = std::move(parts);
    const ValueId total = graph_.AddValue(
        graph_.FreshName(name),
        ValueType::OfTensor(graph_.value(sum.inputs[0]).type.element,
                            std::nullopt));
    sum.outputs = {total};
    graph_.AddNode(std::move(sum));
    NameGradient(total, value, graph_.value_name(total));
    return total;
  }

  Graph& graph_;
  const Reach& reach_;
  const DifferentiateOptions& options_;
  const size_t first_new_ = graph_.value_count();
  std::map<ValueId, std::vector<ValueId>> contributions_;
  std::map<ValueId, bool> named_;
  std::vector<std::string> errors_;
};

[[noreturn]] void ThrowBlocked(const std::vector<std::string>& reasons) {
  std::string text = "no gradient can be made";
  for (size_t i = 0; i < std::min(reasons.size(), kMostBlockersNamed); ++i)
    text += fmt::format("{} {}", i == 0 ? ":" : ";", reasons[i]);
  if (reasons.size() > kMostBlockersNamed) {
    text +=
        fmt::format("; and {} more nodes", reasons.size() - kMostBlockersNamed);
  }
  Throw(ErrorCode::kNotImplemented, "{}", text);
}

}  // namespace

std::vector<ValueId> Differentiate(Graph& graph,
                                   std::span<const ValueId> outputs,
                                   std::span<const ValueId> seeds,
                                   std::span<const ValueId> wrt,
                                   const DifferentiateOptions& options) {
  InferShapes(graph, options.custom);
  for (const ValueId output : outputs) {
    if (IsDifferentiable(graph, output)) continue;
    Throw(ErrorCode::kInvalidArgument,
          "\"{}\" is of {} and has no gradient; a float type is wanted",
          graph.value_name(output),
          DataTypeName(graph.value(output).type.element));
  }
  const Reach reach(graph, outputs, wrt, options.custom);
  std::vector<std::string> reasons;
  for (const Blocker& blocker : reach.Blockers())
    reasons.push_back(blocker.reason);
  if (!reasons.empty()) ThrowBlocked(reasons);

  Differentiator differentiator(graph, reach, options);
  for (size_t i = 0; i < outputs.size(); ++i)
    differentiator.Contribute(outputs[i], seeds[i]);
  differentiator.Run();
  if (!differentiator.errors().empty()) ThrowBlocked(differentiator.errors());
  std::vector<ValueId> gradients;
  for (const ValueId value : wrt)
    gradients.push_back(differentiator.NamedGradientOf(value));
  return gradients;
}

ValueId AddScalarSeed(Graph& graph, ValueId output) {
  const Value& value = graph.value(output);
  if (value.type.dims) {
    for (const Dimension& dimension : *value.type.dims) {
      if (dimension.value == 1) continue;
      Throw(ErrorCode::kInvalidArgument,
            "the loss \"{}\" is not a scalar: it has rank {}", value.name,
            value.type.dims->size());
    }
  }
  const std::vector<int64_t> dims(value.type.dims ? value.type.dims->size() : 0,
                                  1);
  // A type that nobody knows is behind an op that nobody knows, of which
  // Differentiate tells.
  const DataType type = value.type.element == DataType::kUndefined
                            ? DataType::kFloat32
                            : value.type.element;
  const OwnedTensor one(type, Shape(dims));
  GraphBuilder builder(graph, "");
  const Tensor seed =
      graph.value(builder.Scalar(1, type).id).initializer->view();
  std::ranges::copy(seed.bytes(), one.view().bytes().begin());
  return builder.Constant(value.name + "_grad", one.view()).id;
}

}  // namespace strop
