// SPDX-License-Identifier: Apache-2.0
//
// From the base model to the graphs of the artifacts: loss, then parameters
// become inputs, then the two graphs part: one is switched for evaluation,
// the other for training, differentiated, and its gradients are accumulated.
#include <algorithm>
#include <iterator>

#include "artifacts/faults.h"
#include "artifacts/generated_names.h"
#include "artifacts/notes.h"
#include "artifacts/switch_modes.h"
#include "artifacts/training_graphs.h"
#include "artifacts/weights.h"
#include "autodiff/differentiate.h"
#include "autodiff/reach.h"
#include "base/throw.h"
#include "ops/graph_builder.h"
#include "ops/infer_shapes.h"
#include "passes/convert_opset.h"
#include "passes/passes.h"

namespace strop {
namespace {

AddedLoss AddLoss(Graph& graph, const ArtifactOptions& options,
                  const std::optional<Model>& loss_model,
                  std::span<const CustomOpDomain* const> custom_ops) {
  const int used = options.names_used;
  if (loss_model)
    return {AddLossModel(graph, loss_model->graph, custom_ops), used};
  if (!options.losses.empty()) return AddLosses(graph, options.losses, used);
  if (graph.outputs().empty())
    Throw(ErrorCode::kInvalidArgument, "the model has no output");
  return {graph.outputs()[0], used};
}

// Returns the outputs of the model that no node computes: they cannot be kept.
Lines SetOutputs(Graph& graph, ValueId loss, const ArtifactOptions& options) {
  std::vector<ValueId> outputs = {loss};
  for (const std::string& name : options.additional_output_names) {
    const ValueId id = graph.Find(name);
    if (!id) {
      Throw(ErrorCode::kNotFound,
            "the additional output \"{}\" is no value of the model", name);
    }
    const Value& value = graph.value(id);
    if (value.is_input || value.initializer) {
      Throw(ErrorCode::kInvalidArgument,
            "the additional output \"{}\" is an input of the model", name);
    }
    if (std::ranges::find(outputs, id) == outputs.end()) outputs.push_back(id);
  }
  Lines dropped;
  const std::span<const ValueId> own = graph.outputs();
  for (const ValueId id : options.keep_outputs ? own : own.first(0)) {
    if (graph.value(id).is_input || graph.value(id).initializer) {
      dropped.push_back(
          fmt::format("the output \"{}\" is an input or a constant of the "
                      "model and left out",
                      graph.value_name(id)));
    } else if (std::ranges::find(outputs, id) == outputs.end()) {
      outputs.push_back(id);
    }
  }
  graph.SetOutputs(std::move(outputs));
  return dropped;
}

std::vector<TensorData> TakeInitializers(Graph& graph,
                                         const std::vector<ValueId>& ids) {
  std::vector<TensorData> taken;
  for (const ValueId id : ids) {
    taken.push_back(*graph.value(id).initializer);
    graph.RemoveInitializer(id);
  }
  return taken;
}

void AppendInputs(Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<ValueId> inputs(graph.inputs().begin(), graph.inputs().end());
  inputs.insert(inputs.end(), ids.begin(), ids.end());
  graph.SetInputs(std::move(inputs));
}

// --- Gradients

void RequireFloatLoss(const Graph& graph, ValueId loss) {
  if (IsDifferentiable(graph, loss)) return;
  Throw(ErrorCode::kInvalidArgument,
        "the loss \"{}\" is of {}; a float type is wanted",
        graph.value_name(loss), DataTypeName(graph.value(loss).type.element));
}

// Of a model that brings its loss itself.
void RequireScalar(const Graph& graph, ValueId loss) {
  const auto& dims = graph.value(loss).type.dims;
  const auto is_one = [](const Dimension& d) { return d.value == 1; };
  if (!dims || std::ranges::all_of(*dims, is_one)) return;
  Throw(ErrorCode::kInvalidArgument,
        "the first output is the loss, a scalar, unless a loss is named, but "
        "\"{}\" has rank {}",
        graph.value_name(loss), dims->size());
}

void Accumulate(Graph& graph, const std::vector<ValueId>& trained,
                const std::vector<ValueId>& gradients) {
  std::vector<ValueId> buffers;
  for (const ValueId id : trained) {
    ValueType type = graph.value(id).type;
    type.encoded.clear();
    buffers.push_back(graph.AddInput(AccumulationBufferOf(graph.value_name(id)),
                                     std::move(type)));
  }
  const std::vector<Dimension> one = {{.value = 1, .symbol = {}}};
  const ValueType flag = ValueType::OfTensor(DataType::kBool, one);
  const ValueId reset = graph.AddInput(std::string(kResetFlag), flag);
  for (size_t i = 0; i < trained.size(); ++i) {
    Node node;
    node.name = fmt::format("GradientAccumulator{}", graph.outputs().size());
    node.op_type = "InPlaceAccumulatorV2";
    node.domain = kMicrosoft;
    node.inputs = {buffers[i], gradients[i], reset};
    const ValueId out =
        graph.AddValue(AccumulatedOf(graph.value_name(trained[i])), flag);
    node.outputs = {out};
    graph.AddNode(std::move(node));
    graph.MarkOutput(out);
  }
}

void AddGradients(Graph& graph, ValueId loss,
                  const std::vector<ValueId>& trained,
                  std::span<const CustomOpDomain* const> custom_ops) {
  graph.opset_imports[std::string(kMicrosoft)] = 1;
  if (trained.empty()) {
    Accumulate(graph, {}, {});
    return;
  }
  const ValueId outputs[] = {loss};
  const ValueId seeds[] = {AddScalarSeed(graph, loss)};
  const std::vector<ValueId> gradients =
      Differentiate(graph, outputs, seeds, trained, {.custom = custom_ops});
  std::string unreached;
  for (size_t i = 0; i < trained.size(); ++i) {
    if (gradients[i]) continue;
    unreached += fmt::format("{}\"{}\"", unreached.empty() ? "" : ", ",
                             graph.value_name(trained[i]));
  }
  if (!unreached.empty()) {
    Throw(ErrorCode::kInvalidArgument,
          "the loss \"{}\" does not depend on {}, which should be trained",
          graph.value_name(loss), unreached);
  }
  Accumulate(graph, trained, gradients);
  graph.SortNodes();
}

std::vector<std::string> Names(const Graph& graph,
                               std::span<const ValueId> ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value_name(id));
  return names;
}

void Append(Lines& to, Lines lines) {
  to.insert(to.end(), std::make_move_iterator(lines.begin()),
            std::make_move_iterator(lines.end()));
}

void ReportNames(const Graph& graph, const ParameterChoice& choice,
                 ValueId loss, ArtifactReport& report) {
  report.trainable = Names(graph, choice.trainable);
  report.frozen = Names(graph, choice.frozen);
  report.trained_inputs = Names(graph, choice.trained_inputs);
  report.loss_name = graph.value_name(loss);
  report.user_inputs = Names(graph, graph.inputs());
  report.user_outputs = Names(graph, graph.outputs());
}

bool Holds(const std::vector<ValueId>& ids, ValueId id) {
  return std::ranges::find(ids, id) != ids.end();
}

// Parameters of both kinds become inputs, in the order of the initializers.
void MakeInputsOfParameters(Graph& graph, const ParameterChoice& choice,
                            TrainingModels& models) {
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.initializers())
    if (Holds(choice.trainable, id) || Holds(choice.frozen, id))
      parameters.push_back(id);
  models.trainable = TakeInitializers(graph, choice.trainable);
  models.frozen = TakeInitializers(graph, choice.frozen);
  AppendInputs(graph, parameters);
  RemoveDead(graph);
}

void DifferentiateLoss(Graph& training, ValueId loss,
                       const ParameterChoice& choice,
                       std::span<const CustomOpDomain* const> custom_ops) {
  std::vector<ValueId> trained;  // in the order of the inputs
  for (const ValueId id : training.inputs())
    if (Holds(choice.trainable, id) || Holds(choice.trained_inputs, id))
      trained.push_back(id);
  FreeGradientNames(training, trained);
  // What has one gradient as a whole is differentiated as a whole.
  FuseLayerNorm(training);
  FuseGelu(training);
  AddGradients(training, loss, trained, custom_ops);
}

// Moves the older of the two to the opset of the newer one; the model stays
// where an opset was asked for.
Lines MatchOpsets(Model& base, Model& loss, const ArtifactOptions& options,
                  std::span<const CustomOpDomain* const> custom_ops) {
  const int64_t ours = base.graph.opset(kOnnx);
  const int64_t theirs = loss.graph.opset(kOnnx);
  if (ours == theirs || ours == 0 || theirs == 0) return {};
  if (ours < theirs && options.opset) return {};
  Model& older = ours < theirs ? base : loss;
  InferShapes(older.graph, custom_ops);
  ConvertOpset(older, std::max(ours, theirs));
  if (theirs < ours) return {};
  return {fmt::format("the artifacts are of opset {}, that of the loss model",
                      theirs)};
}

}  // namespace

TrainingModels MakeTrainingModels(
    Model base, const ArtifactOptions& options, std::optional<Model> loss_model,
    std::span<const CustomOpDomain* const> custom_ops) {
  Graph& graph = base.graph;
  if (options.opset) {
    InferShapes(graph, custom_ops);
    ConvertOpset(base, *options.opset);
  }
  TrainingModels models;
  if (loss_model)
    models.report.notes = MatchOpsets(base, *loss_model, options, custom_ops);
  const Weights weights = FindWeights(graph);
  const auto [loss, names_used, loss_notes] =
      AddLoss(graph, options, loss_model, custom_ops);
  const InferenceReport inference = InferShapes(graph, custom_ops);
  RequireFloatLoss(graph, loss);
  if (options.losses.empty() && !loss_model) RequireScalar(graph, loss);
  const ParameterChoice choice =
      ChooseParameters(graph, options, loss, weights, custom_ops);
  Append(models.report.notes, loss_notes);
  Append(models.report.notes, choice.notes);
  Append(models.report.notes, SetOutputs(graph, loss, options));
  const std::vector<Fault> faults = FaultsOf(graph, inference, custom_ops);

  ReportNames(graph, choice, loss, models.report);
  MakeInputsOfParameters(graph, choice, models);
  if (options.optimizer != OptimizerKind::kNone) CheckTypesOf(models.trainable);
  const std::set<ValueId> trainable(choice.trainable.begin(),
                                    choice.trainable.end());
  Append(models.report.notes, WeightNotes(graph, weights, trainable));
  Append(models.report.notes, InsideNotes(graph));
  Append(models.report.notes, SharedStatisticsNotes(graph, trainable));

  models.eval = base;
  SwitchToEval(models.eval.graph);
  models.training = std::move(base);
  Graph& training = models.training.graph;
  Append(models.report.notes, SwitchToTraining(training, trainable));
  DifferentiateLoss(training, loss, choice, custom_ops);
  ThrowFaults(faults);  // what stands in the way of gradients comes first
  RemoveDead(training);
  TellNodesApart(training);
  TellNodesApart(models.eval.graph);
  Append(models.report.notes, StropOpNotes(training));
  Append(models.report.notes, NewerOpNotes(training));
  models.report.names_used = names_used;
  if (options.optimizer != OptimizerKind::kNone && !trainable.empty()) {
    OptimizerModel made =
        MakeOptimizerModel(options, {.type = models.trainable.front().type,
                                     .opset = training.opset(kOnnx),
                                     .ir_version = models.training.ir_version,
                                     .names_used = names_used});
    models.optimizer = std::move(made.model);
    models.report.names_used = made.names_used;
  }
  return models;
}

}  // namespace strop
