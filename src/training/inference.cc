// SPDX-License-Identifier: Apache-2.0
#include "training/inference.h"

#include <utility>

#include "checkpoint/parameter_store.h"
#include "strop/random.h"
#include "training/bound_graph.h"
#include "training/session.h"
#include "training/signature.h"

namespace strop {
namespace {

BoundGraph MakeGraph(const ModelSource& model, const Session& session) {
  Graph graph = ReadModel(model, session.environment()).graph;
  ParameterStore no_parameters(session.environment());
  const Signature signature = ReadEvalSignature(graph, no_parameters);
  return BoundGraph("Inference", std::move(graph), signature.user_inputs,
                    BoundGraph::Statistics::kKeep, session);
}

}  // namespace

class Inference::Impl {
 public:
  Impl(const ModelSource& model, const SessionOptions& options,
       const Environment& environment,
       const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
       std::span<const CustomOpDomain* const> custom_ops)
      : session(options, environment, providers, custom_ops),
        seed(static_cast<uint64_t>(GetSeed())),
        graph(MakeGraph(model, session)) {}

  Session session;
  uint64_t seed;
  BoundGraph graph;
};

Inference::Inference(
    const ModelSource& model, const SessionOptions& options,
    const Environment& environment,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
    std::span<const CustomOpDomain* const> custom_ops)
    : impl_(std::make_unique<Impl>(model, options, environment, providers,
                                   custom_ops)) {}
Inference::~Inference() = default;

const std::vector<Module::InputInfo>& Inference::inputs() const {
  return impl_->graph.inputs();
}

const std::vector<std::string>& Inference::output_names() const {
  return impl_->graph.output_names();
}

void Inference::Run(std::span<const Tensor> inputs,
                    std::vector<OwnedTensor>* outputs) {
  impl_->graph.Run(inputs, {.owned = outputs},
                   {.seed = impl_->seed, .node = 0, .step = 0});
}

std::string Inference::DescribePlan(std::span<const Tensor> inputs,
                                    Module::PlanFormat format) {
  const Plan& plan = impl_->graph.PlanFor(inputs);
  return format == Module::PlanFormat::kJson ? DescribePlanAsJson(plan)
                                             : strop::DescribePlan(plan);
}

}  // namespace strop
