// SPDX-License-Identifier: Apache-2.0
//
// The graphs of the artifacts, in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "artifacts/weights.h"
#include "checkpoint/parameter_store.h"
#include "graph/graph.h"
#include "graph/onnx_io.h"
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
// Names alone.
ParameterStore NominalOf(const ParameterStore& store);

// What the optimizer's model has in common with the training model.
struct OptimizerTraits {
  DataType type = DataType::kFloat32;  // of the parameters
  int64_t opset = 0, ir_version = 0;
  int names_used = 0;  // generated names are numbered through all files
};

// Why no optimizer updates parameters of the type; "" where one does.
std::string WhyNoOptimizer(DataType type);
// Throws kInvalidArgument naming the parameters that none updates.
void CheckTypesOf(const std::vector<TensorData>& parameters);

struct OptimizerModel {
  Model model;
  int names_used = 0;
};

OptimizerModel MakeOptimizerModel(const ArtifactOptions& options,
                                  const OptimizerTraits& traits);

struct AddedLoss {
  ValueId value;
  int names_used = 0;
  std::vector<std::string> notes = {};  // for the report
};

// Appends the loss to the graph, with the inputs of the targets. Infers
// shapes before. `names_used`: those that were generated before.
AddedLoss AddLosses(Graph& graph, const std::vector<Loss>& losses,
                    int names_used = 0);
// The same for a model's graph.
ValueId AddLossModel(Graph& graph, const Graph& loss,
                     std::span<const CustomOpDomain* const> custom_ops = {});

// The files of the artifacts, in memory; the checkpoint as the store that is
// written.
struct EncodedModel {
  std::string name;
  std::string bytes;
  // Of `<name>.data` beside it; nothing where the model holds all itself.
  std::vector<std::span<const std::byte>> data;
  std::shared_ptr<const void> owner;  // of `data`
};
struct EncodedArtifacts {
  ArtifactReport report;
  ParameterStore store;
  std::vector<EncodedModel> models;
  // What the models were read from, their external data too.
  std::vector<std::filesystem::path> sources;
};
// `write`: when tensors go beside the models.
EncodedArtifacts EncodeArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops = {},
    const OnnxWriteOptions& write = {});
// Writes all or nothing. Throws kInvalidArgument where a file would take the
// place of a source.
ArtifactReport WriteArtifacts(const EncodedArtifacts& encoded,
                              const ArtifactOptions& options,
                              const std::filesystem::path& folder,
                              const Environment& environment);

TrainabilityReport CheckTrainabilityOf(
    Model model, std::span<const CustomOpDomain* const> custom_ops = {});

// --- Choosing parameters

struct ParameterChoice {
  std::vector<ValueId> trainable, frozen;  // in the order of initializers
  std::vector<ValueId> trained_inputs;     // graph inputs with a gradient
  std::vector<std::string> notes;
};

// `loss` is the value that is differentiated. The parameters of `weights` are
// all trained unless the options name some; a glob means no others.
ParameterChoice ChooseParameters(
    const Graph& graph, const ArtifactOptions& options, ValueId loss,
    const Weights& weights, std::span<const CustomOpDomain* const> custom_ops);

bool IsBatchNormalization(const Node& node);
// Inputs 3 and 4 of a BatchNormalization; none for other nodes.
std::vector<ValueId> RunningStatistics(const Graph& graph, const Node& node);
// Those of all nodes, in sub-graphs too.
std::set<ValueId> AllRunningStatistics(const Graph& graph);
// A BatchNormalization that will normalize by the statistics of its batch: it
// does so already, or its scale or bias is trained.
bool TrainsOnBatch(const Graph& graph, const Node& node,
                   const std::set<ValueId>& trainable);

}  // namespace strop
