// SPDX-License-Identifier: Apache-2.0
//
// The graphs of the artifacts, in memory.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/parameter_store.h"
#include "graph/graph.h"
#include "strop/artifacts.h"

namespace strop {

struct TrainingModels {
  Model training, eval;
  std::optional<Model> optimizer;
  // In the order of the base model's initializers.
  std::vector<TensorData> trainable, frozen;
  ArtifactReport report;
};

// `base` as it was read, in the newest spelling; `loss_model` is that of the
// options, read alike.
TrainingModels MakeTrainingModels(
    Model base, const ArtifactOptions& options,
    std::optional<Model> loss_model = {},
    std::span<const CustomOpDomain* const> custom_ops = {});

// The checkpoint of the models.
ParameterStore MakeParameterStore(const TrainingModels& models,
                                  const Environment& environment);

// What the optimizer's model has in common with the training model.
struct OptimizerTraits {
  DataType type = DataType::kFloat32;  // of the parameters
  int64_t opset = 0, ir_version = 0;
  int names_used = 0;  // generated names are numbered through all files
};

Model MakeOptimizerModel(const ArtifactOptions& options,
                         const OptimizerTraits& traits);

struct AddedLoss {
  ValueId value;
  int names_used = 0;
};

// Appends the loss to the graph, with the inputs of the targets. Infers
// shapes before.
AddedLoss AddLosses(Graph& graph, const std::vector<Loss>& losses);
// The same for a model's graph.
ValueId AddLossModel(Graph& graph, const Graph& loss);

// The files of the artifacts, in memory; the checkpoint as the store that is
// written.
struct EncodedModel {
  std::string name;
  std::string bytes;
};
struct EncodedArtifacts {
  ArtifactReport report;
  ParameterStore store;
  std::vector<EncodedModel> models;
};
EncodedArtifacts EncodeArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops = {});

// Float initializers that may be trained, those that were Constant nodes among
// them: these become initializers, and initializers are no inputs any more.
// Left out are numbers that a formula needs. Throws kNotImplemented for opsets
// that Strop only carries.
std::vector<ValueId> FindParameters(Graph& graph);

TrainabilityReport CheckTrainabilityOf(
    Model model, std::span<const CustomOpDomain* const> custom_ops = {});

// --- Choosing parameters

struct ParameterChoice {
  std::vector<ValueId> trainable, frozen;  // in the order of initializers
  std::vector<ValueId> trained_inputs;     // graph inputs with a gradient
};

// `loss` is the value that is differentiated; `parameters` are those of which
// all are trained unless the options name some.
ParameterChoice ChooseParameters(
    const Graph& graph, const ArtifactOptions& options, ValueId loss,
    std::span<const ValueId> parameters,
    std::span<const CustomOpDomain* const> custom_ops);

// Inputs 3 and 4 of a BatchNormalization; none for other nodes.
std::vector<ValueId> RunningStatistics(const Graph& graph, const Node& node);
// A BatchNormalization that will normalize by the statistics of its batch: it
// does so already, or its scale or bias is trained.
bool TrainsOnBatch(const Graph& graph, const Node& node,
                   const std::set<ValueId>& trainable);

}  // namespace strop
