// SPDX-License-Identifier: Apache-2.0
#include "strop/function.h"

#include <algorithm>
#include <numeric>

#include "autodiff/differentiate.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "ops/graph_builder.h"
#include "ops/infer_shapes.h"
#include "passes/passes.h"
#include "training/bound_graph.h"

namespace strop {
namespace {

ValueId ValueCalled(const Graph& graph, const std::string& name) {
  const ValueId id = graph.Find(name);
  if (id) return id;
  Throw(ErrorCode::kNotFound, "the model has no value \"{}\"", name);
}

ValueId FloatCalled(const Graph& graph, const std::string& name) {
  const ValueId id = ValueCalled(graph, name);
  if (IsDifferentiable(graph, id)) return id;
  Throw(ErrorCode::kInvalidArgument,
        "\"{}\" is of {}; a gradient wants a float type", name,
        DataTypeName(graph.value(id).type.element));
}

ValueId AddSeed(Graph& graph, ValueId of, bool seeded) {
  const ValueType type = ValueType::OfTensor(graph.value(of).type.element,
                                             graph.value(of).type.dims);
  if (seeded) {
    return graph.AddInput(graph.FreshName(graph.value_name(of) + "_seed"),
                          type);
  }
  GraphBuilder builder(graph, "seed/");
  const Var one = builder.Scalar(1, type.element);
  return builder.Op("Expand", {one, builder.Shape(builder.Of(of))}).id;
}

// Outputs, then gradients.
void AddGradients(Graph& graph, const FunctionOptions& options,
                  std::vector<ValueId>& outputs,
                  std::span<const CustomOpDomain* const> custom_ops) {
  const ValueId of =
      options.of.empty() ? outputs.at(0) : ValueCalled(graph, options.of);
  FloatCalled(graph, graph.value_name(of));
  std::vector<ValueId> wrt;
  for (const std::string& name : options.wrt)
    wrt.push_back(FloatCalled(graph, name));
  const ValueId ofs[] = {of};
  const ValueId seeds[] = {AddSeed(graph, of, options.seeded)};
  const std::vector<ValueId> gradients =
      Differentiate(graph, ofs, seeds, wrt, {.custom = custom_ops});
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (!gradients[i]) {
      Throw(ErrorCode::kInvalidArgument, "\"{}\" does not depend on \"{}\"",
            graph.value_name(of), options.wrt[i]);
    }
    outputs.push_back(gradients[i]);
  }
}

// Every output of the graph is computed by a node, once.
Graph WithOutputs(Graph graph, const std::vector<ValueId>& outputs) {
  GraphBuilder builder(graph, "output/");
  std::vector<ValueId> own;
  for (const ValueId id : outputs) {
    const bool plain =
        graph.value(id).producer && std::ranges::find(own, id) == own.end();
    own.push_back(plain ? id : builder.Op("Identity", {builder.Of(id)}).id);
  }
  graph.SetOutputs(std::move(own));
  graph.SortNodes();
  RemoveDead(graph);
  return graph;
}

std::vector<size_t> AllInputs(const Graph& graph) {
  std::vector<size_t> positions(graph.inputs().size());
  std::iota(positions.begin(), positions.end(), size_t{0});
  return positions;
}

}  // namespace

class Function::Impl {
 public:
  Impl(const ModelSource& source, const FunctionOptions& options,
       const SessionOptions& session_options, const Environment& environment,
       std::span<const CustomOpDomain* const> custom_ops)
      : session_(session_options, environment, {}, custom_ops) {
    Graph graph = ReadModel(source, environment).graph;
    UndeclareInitializers(graph);
    InferShapes(graph, custom_ops);
    std::vector<ValueId> outputs(graph.outputs().begin(),
                                 graph.outputs().end());
    if (!options.outputs.empty()) outputs.clear();
    for (const std::string& name : options.outputs)
      outputs.push_back(ValueCalled(graph, name));
    if (outputs.empty())
      Throw(ErrorCode::kInvalidArgument, "the model has no output");
    for (const ValueId id : outputs)
      output_names_.push_back(graph.value_name(id));
    if (!options.wrt.empty()) AddGradients(graph, options, outputs, custom_ops);
    graph = WithOutputs(std::move(graph), outputs);
    const std::vector<size_t> inputs = AllInputs(graph);
    bound_ =
        std::make_unique<BoundGraph>("Function", std::move(graph), inputs,
                                     BoundGraph::Statistics::kKeep, session_);
  }

  const std::vector<std::string>& input_names() const {
    return bound_->input_names();
  }
  const std::vector<std::string>& output_names() const { return output_names_; }

  void Run(std::span<const Tensor> inputs, std::vector<OwnedTensor>* outputs,
           std::vector<OwnedTensor>* gradients) {
    bound_->Run(inputs, {.owned = &results_},
                {.seed = static_cast<uint64_t>(GetSeed()), .step = step_++});
    const auto first_gradient =
        results_.begin() + static_cast<std::ptrdiff_t>(output_names_.size());
    const auto move = [](auto begin, auto end, std::vector<OwnedTensor>* to) {
      if (to == nullptr) return;
      to->assign(std::make_move_iterator(begin), std::make_move_iterator(end));
    };
    move(results_.begin(), first_gradient, outputs);
    move(first_gradient, results_.end(), gradients);
    results_.clear();
  }

 private:
  Session session_;
  std::vector<std::string> output_names_;
  std::unique_ptr<BoundGraph> bound_;
  std::vector<OwnedTensor> results_;
  uint64_t step_ = 0;
};

Function::Function(const ModelSource& model, const FunctionOptions& options,
                   const SessionOptions& session,
                   const Environment& environment,
                   std::span<const CustomOpDomain* const> custom_ops)
    : impl_(std::make_unique<Impl>(model, options, session, environment,
                                   custom_ops)) {}

Function::~Function() = default;

const std::vector<std::string>& Function::InputNames() const {
  return impl_->input_names();
}

const std::vector<std::string>& Function::OutputNames() const {
  return impl_->output_names();
}

void Function::Run(std::span<const Tensor> inputs,
                   std::vector<OwnedTensor>* outputs,
                   std::vector<OwnedTensor>* gradients) {
  impl_->Run(inputs, outputs, gradients);
}

}  // namespace strop
