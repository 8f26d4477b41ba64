// SPDX-License-Identifier: Apache-2.0
#include "strop/module.h"

#include <optional>
#include <utility>

#include "base/throw.h"
#include "checkpoint/parameter_store.h"
#include "strop/random.h"
#include "training/bound_graph.h"
#include "training/export_inference.h"
#include "training/parameter_buffer.h"
#include "training/session.h"
#include "training/signature.h"

namespace strop {
namespace {

// How many train steps have drawn random numbers: a resumed run goes on
// there. Kept for graphs that draw any.
constexpr char kRandomStepProperty[] = "strop.random_step";

ParameterStore& StoreOf(CheckpointState* state) {
  if (state == nullptr) {
    Throw(ErrorCode::kInvalidArgument, "Module: the checkpoint state is null");
  }
  return state->store();
}

std::vector<ParameterSlot> ParameterSlots(const Graph& graph,
                                          const Signature& signature,
                                          ParameterStore& store) {
  std::vector<ParameterSlot> slots;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const SignatureInput& input = signature.inputs[i];
    if (input.role != InputRole::kParameter) continue;
    slots.push_back({.name = input.parameter,
                     .requires_grad = store.Get(input.parameter).requires_grad,
                     .declared = DeclaredInfo(graph, graph.inputs()[i])});
  }
  return slots;
}

}  // namespace

// A graph with what its inputs are.
struct SignedGraph {
  Signature signature;
  BoundGraph graph;

  // Points parameters and gradients at the store's memory.
  void BindState(ParameterStore& store, Tensor reset_flag) {
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const SignatureInput& input = signature.inputs[i];
      switch (input.role) {
        case InputRole::kUser:
          break;
        case InputRole::kParameter:
          graph.Bind(i, store.Get(input.parameter).value);
          break;
        case InputRole::kGradient:
          graph.Bind(i, store.Get(input.parameter).gradient);
          break;
        case InputRole::kResetFlag:
          graph.Bind(i, reset_flag);
          break;
      }
    }
  }
};

class Module::Impl {
 public:
  Impl(const ModelIdentifiers& models, CheckpointState* state,
       const SessionOptions& options, const Environment& environment,
       const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
       std::span<const CustomOpDomain* const> custom_ops)
      : state_(state),
        store_(StoreOf(state)),
        session_(options, environment, providers, custom_ops),
        seed_(static_cast<uint64_t>(GetSeed())),
        train_(MakeTrain(models.train)) {
    if (models.eval) {
      eval_.emplace(MakeEval(*models.eval));
      if (const auto* path =
              std::get_if<std::filesystem::path>(&*models.eval)) {
        eval_path_ = *path;
      }
    }
    // The state is touched last, when nothing else can fail.
    if (!store_.is_nominal) BindState();
  }

  void TrainStep(std::span<const Tensor> inputs, const StepOutputs& outputs) {
    RequireBoundState("TrainStep");
    reset_gradients_[0] = !accumulate_gradients_;
    const bool strict =
        session_.options().non_finite == SessionOptions::NonFinite::kError;
    train_.graph.Run(inputs, outputs, NextRandomKey(), strict);
    accumulate_gradients_ = true;
    AdvanceRandomKey();
  }

  void LazyResetGrad() { accumulate_gradients_ = false; }

  void EvalStep(std::span<const Tensor> inputs, const StepOutputs& outputs) {
    RequireEval("EvalStep");
    RequireBoundState("EvalStep");
    eval_->graph.Run(inputs, outputs, {.seed = seed_, .node = 0, .step = 0});
  }

  void CopyBufferToParameters(const Tensor& buffer, bool trainable_only) {
    CopyFromBuffer(slots_, store_, buffer, trainable_only);
    if (!is_bound_) BindState();
  }

  void Export(const std::filesystem::path& path,
              std::span<const std::string> output_names) const {
    store_.RequireValues("ExportModelForInferencing");
    if (!eval_path_) {
      Throw(ErrorCode::kFailedState,
            "ExportModelForInferencing: the eval model was not provided as a "
            "path, from which the export is made");
    }
    ExportInferenceModel(*eval_path_, store_, session_, path, output_names);
  }

  std::string DescribePlan(bool training, std::span<const Tensor> inputs,
                           PlanFormat format) {
    RequireBoundState("DescribePlan");
    if (!training) RequireEval("DescribePlan");
    BoundGraph& graph = training ? train_.graph : eval_->graph;
    const Plan& plan = graph.PlanFor(inputs);
    return format == PlanFormat::kJson ? DescribePlanAsJson(plan)
                                       : strop::DescribePlan(plan);
  }

  std::string Profile() const {
    if (session_.profiler() == nullptr) {
      Throw(ErrorCode::kFailedState,
            "no profile: SessionOptions::enable_profiling is not set");
    }
    return session_.profiler()->ToJson();
  }

  void WriteProfile(const std::filesystem::path& path) const {
    const std::string trace = Profile();
    const FileToWrite file = {.path = path,
                              .parts = {std::as_bytes(std::span(trace))}};
    session_.environment().files().Write({&file, 1});
  }

  CheckpointState& state() const { return *state_; }
  ParameterStore& store() const { return store_; }
  std::span<const ParameterSlot> slots() const { return slots_; }
  const BoundGraph& train() const { return train_.graph; }
  const BoundGraph* eval() const { return eval_ ? &eval_->graph : nullptr; }

 private:
  SignedGraph MakeTrain(const ModelSource& source) {
    Graph graph = ReadModel(source, session_.environment()).graph;
    Signature signature = ReadTrainingSignature(graph, store_);
    slots_ = ParameterSlots(graph, signature, store_);
    const auto statistics = session_.options().update_batch_norm_statistics
                                ? BoundGraph::Statistics::kUpdate
                                : BoundGraph::Statistics::kKeep;
    std::vector<size_t> user_inputs = signature.user_inputs;
    return {std::move(signature),
            BoundGraph("TrainStep", std::move(graph), user_inputs, statistics,
                       session_)};
  }

  SignedGraph MakeEval(const ModelSource& source) {
    Graph graph = ReadModel(source, session_.environment()).graph;
    Signature signature = ReadEvalSignature(graph, store_);
    std::vector<size_t> user_inputs = signature.user_inputs;
    return {std::move(signature),
            BoundGraph("EvalStep", std::move(graph), user_inputs,
                       BoundGraph::Statistics::kKeep, session_)};
  }

  void BindState() {
    store_.AttachGradients();
    const Tensor flag(Shape{1}, reset_gradients_);
    train_.BindState(store_, flag);
    if (eval_) eval_->BindState(store_, flag);
    is_bound_ = true;
  }

  // A nominal state may have been completed by another session.
  void RequireBoundState(std::string_view what) {
    if (is_bound_) return;
    store_.RequireValues(what);
    BindState();
  }

  void RequireEval(std::string_view what) const {
    if (eval_) return;
    Throw(ErrorCode::kFailedState, "{}: there is no eval model", what);
  }

  // Null before the first step that draws.
  int64_t* RandomStep() const {
    const auto found = store_.properties.find(kRandomStepProperty);
    return found == store_.properties.end()
               ? nullptr
               : std::get_if<int64_t>(&found->second);
  }

  RandomKey NextRandomKey() const {
    RandomKey key = {.seed = seed_, .node = 0, .step = 0};
    if (!train_.graph.draws_random_numbers()) return key;
    if (const int64_t* step = RandomStep()) {
      key.step = static_cast<uint64_t>(*step);
    }
    return key;
  }

  void AdvanceRandomKey() {
    if (!train_.graph.draws_random_numbers()) return;
    if (int64_t* step = RandomStep()) {
      ++*step;
    } else {
      store_.properties[kRandomStepProperty] = int64_t{1};
    }
  }

  CheckpointState* state_;
  // Stays where it is when the state is moved.
  ParameterStore& store_;
  Session session_;
  uint64_t seed_;
  std::vector<ParameterSlot> slots_;
  SignedGraph train_;
  std::optional<SignedGraph> eval_;
  std::optional<std::filesystem::path> eval_path_;
  bool is_bound_ = false;
  bool accumulate_gradients_ = false;
  bool reset_gradients_[1] = {true};  // the graph's input "lazy_reset_grad"
};

Module::Module(const ModelIdentifiers& models, CheckpointState* state,
               const SessionOptions& options, const Environment& environment,
               const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
               std::span<const CustomOpDomain* const> custom_ops)
    : impl_(std::make_unique<Impl>(models, state, options, environment,
                                   providers, custom_ops)) {}
Module::~Module() = default;

void Module::TrainStep(std::span<const Tensor> inputs,
                       std::vector<OwnedTensor>* outputs) {
  impl_->TrainStep(inputs, {.owned = outputs});
}

void Module::TrainStep(std::span<const Tensor> inputs,
                       std::span<const Tensor> outputs) {
  impl_->TrainStep(inputs, {.given = outputs});
}

void Module::LazyResetGrad() { impl_->LazyResetGrad(); }

void Module::EvalStep(std::span<const Tensor> inputs,
                      std::vector<OwnedTensor>* outputs) {
  impl_->EvalStep(inputs, {.owned = outputs});
}

void Module::EvalStep(std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) {
  impl_->EvalStep(inputs, {.given = outputs});
}

const std::vector<std::string>& Module::TrainingInputNames() const {
  return impl_->train().input_names();
}

const std::vector<std::string>& Module::TrainingOutputNames() const {
  return impl_->train().output_names();
}

const std::vector<std::string>& Module::EvalInputNames() const {
  static const std::vector<std::string> kNone;
  return impl_->eval() ? impl_->eval()->input_names() : kNone;
}

const std::vector<std::string>& Module::EvalOutputNames() const {
  static const std::vector<std::string> kNone;
  return impl_->eval() ? impl_->eval()->output_names() : kNone;
}

const std::vector<Module::InputInfo>& Module::TrainingInputs() const {
  return impl_->train().inputs();
}

const std::vector<Module::InputInfo>& Module::EvalInputs() const {
  static const std::vector<InputInfo> kNone;
  return impl_->eval() ? impl_->eval()->inputs() : kNone;
}

int64_t Module::GetParametersSize(bool trainable_only) const {
  return ParametersSize(impl_->slots(), impl_->store(), trainable_only);
}

void Module::CopyParametersToBuffer(const Tensor& buffer,
                                    bool trainable_only) const {
  CopyToBuffer(impl_->slots(), impl_->store(), buffer, trainable_only);
}

void Module::CopyBufferToParameters(const Tensor& buffer, bool trainable_only) {
  impl_->CopyBufferToParameters(buffer, trainable_only);
}

void Module::ExportModelForInferencing(
    const std::filesystem::path& path,
    std::span<const std::string> output_names) const {
  impl_->Export(path, output_names);
}

CheckpointState& Module::state() const { return impl_->state(); }

std::string Module::DescribePlan(bool training, std::span<const Tensor> inputs,
                                 PlanFormat format) {
  return impl_->DescribePlan(training, inputs, format);
}

std::string Module::Profile() const { return impl_->Profile(); }

void Module::WriteProfile(const std::filesystem::path& path) const {
  impl_->WriteProfile(path);
}

}  // namespace strop
