// SPDX-License-Identifier: Apache-2.0
//
// From a model for inference to one that trains: the four files of ONNX
// Runtime's on-device training, which Strop and ONNX Runtime 1.19.2 run.
//
//   strop::ArtifactOptions options;
//   options.requires_grad = {"fc*.weight", "fc*.bias"};
//   options.losses = {{.kind = strop::LossKind::kCrossEntropy}};
//   options.optimizer = strop::OptimizerKind::kAdamW;
//   strop::GenerateArtifacts("model.onnx", options, "artifacts", environment);
//
// writes training_model.onnx, eval_model.onnx, optimizer_model.onnx and
// checkpoint into the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strop/environment.h"
#include "strop/op.h"
#include "strop/platform.h"
#include "strop/tensor.h"

namespace strop {

// The numbers are those of ONNX Runtime's LossType.
enum class LossKind {
  kMeanSquaredError = 1,
  kCrossEntropy = 2,
  kBinaryCrossEntropyWithLogits = 3,
  kL1 = 4,
};

enum class Reduction { kMean, kSum, kNone };

struct Loss {
  LossKind kind = LossKind::kCrossEntropy;
  // The value that the loss reads: an output of the model, or any value of
  // it. Empty: its one output.
  std::string input = {};
  // The name of the targets: an input of the training model that is added
  // ("labels", int64 [N, d1, ...] for scores [N, C, d1, ...], or "target", of
  // the type and shape of `input`), or a value that the model has already.
  // Empty: "labels" for cross entropy, else "target"; with several losses
  // "<input>_labels", "<input>_target", which losses of one output share.
  std::string target = {};
  // What it counts in the sum of several losses.
  double weight = 1;
  Reduction reduction = Reduction::kMean;
  // Cross entropy: one weight a class. BCE: factors of the loss, which
  // broadcast to it.
  std::shared_ptr<const OwnedTensor> weights = {};
  std::shared_ptr<const OwnedTensor> positive_weights = {};  // BCE
  std::optional<int64_t> ignore_index = {};                  // cross entropy
};

// The numbers are those of ONNX Runtime's OptimType.
enum class OptimizerKind { kNone = 0, kAdamW = 1, kSgd = 2 };

// Attributes of AdamW, with ONNX Runtime's defaults. The learning rate is an
// input of the optimizer model.
struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  float weight_decay = 0;
  bool bias_correction = true;
};

struct ArtifactOptions {
  // Parameters to train and parameters to keep in the checkpoint without
  // training them: names, or globs with * and ?; a full name in one list beats
  // a glob in the other. A trainable name may also be that of a float input of
  // the model: then its gradient is an output, for which no step of Module has
  // a place. Without trainable ones, all parameters that the loss depends on
  // are trained: float initializers but for scalars, exponents and scales of
  // quantization, and of Constant nodes those values, if their
  // elements differ, that a layer (MatMul, Gemm, Conv, LSTM, a normalization,
  // ...) reads as its weight or that are added behind one as its bias, perhaps
  // through Identity, Transpose, Cast and the like. All else, such as tables
  // in Constant nodes (the mean and deviation of a prologue, masks,
  // positions), are trained only where their names stand here; globs do not
  // mean it. Exporters merge initializers that are equal (all ones of a new
  // net) and put an Identity of one for each of the others: these become
  // parameters of their own, as they were, and so does a running statistic that
  // is something else elsewhere.
  std::vector<std::string> requires_grad = {};
  std::vector<std::string> frozen_params = {};
  // A name in `frozen_params` that the model has not is an error; else a note,
  // as an export may have folded away what had that name.
  bool strict_names = false;
  // Nothing is trained but what is named: without trainable names the models
  // have no gradients, and `optimizer` must be kNone.
  bool only_named = false;
  // None: the model's first output is the loss.
  std::vector<Loss> losses = {};
  // Instead of `losses`: a model whose first output is the loss. Its inputs
  // that have names of the model's outputs (or other values) read them; all
  // others become inputs of the training model.
  std::optional<ModelSource> loss_model = {};
  // Further outputs of the training and the eval model, after the loss.
  std::vector<std::string> additional_output_names = {};
  // The model's own outputs stay outputs, after those.
  bool keep_outputs = false;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  AdamWOptions adamw = {};
  // Gradients are scaled down to this norm before each step.
  std::optional<float> clip_grad_norm = {};
  bool nominal_checkpoint = false;
  // The opset of the artifacts, which may be newer than the model's: some
  // gradients need ops that older opsets lack.
  std::optional<int64_t> opset = {};
  std::string prefix = {};  // of file names
  // The names that the caller has generated so far: what is named here
  // ("onnx::loss::2") counts on from them.
  int names_used = 0;
};

// What was made, for reports.
struct ArtifactReport {
  std::vector<std::string> trainable, frozen;
  std::vector<std::string> trained_inputs;  // of the model
  std::vector<std::string> files;           // that were written, without folder
  std::string loss_name;
  std::vector<std::string> user_inputs, user_outputs;
  int names_used = 0;  // see ArtifactOptions
  // What a reader should know: a name that stands for a constant, a
  // gradient that needs Strop to run, ...
  std::vector<std::string> notes;
};

// Writes the files into `folder`, which is made if it is not there; a model
// whose constants pass 2 GB keeps them in <file>.data beside it. Throws
// kInvalidArgument where a file would take the place of one that the model is
// read from, kNotFound for an unknown name (the text offers near ones),
// kInvalidArgument where a trainable name is not of a float type, or of one
// that the optimizer that is asked for does not update (float16, bfloat16),
// nothing is trainable, or the loss does not depend on what is trained, and
// kNotImplemented naming every node without a gradient. Nothing is written
// then.
STROP_EXPORT ArtifactReport GenerateArtifacts(
    const ModelSource& model, const ArtifactOptions& options,
    const std::filesystem::path& folder, const Environment& environment,
    std::span<const CustomOpDomain* const> custom_ops = {});

// --- Can a model be trained?

struct ParameterReport {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  // An output depends on it, no blocker stands in between, and an optimizer
  // takes its type.
  bool trains = false;
  std::string why_not = {};  // where it does not
  // How the model comes to it where that is not plain: "the value of a
  // Constant node", "read through Identity, Transpose".
  std::string origin = {};
};

struct TrainabilityReport {
  int64_t opset = 0, ir_version = 0;
  size_t node_count = 0;
  // Inputs and outputs as "name float32 [batch, 784]".
  std::vector<std::string> inputs, outputs;
  std::vector<ParameterReport> parameters;  // of float types
  // What stays as it is unless it is named: tables, numbers, quantized weights,
  // each with the reason.
  std::vector<std::string> untrained;
  // Everything that a gradient cannot pass, and what a session could not load
  // wherever it stands: each "[Op "name"] ...".
  std::vector<std::string> blockers;
  // Nodes whose shapes could not be inferred.
  std::vector<std::string> notes;
  // What keeps ONNX Runtime from running the training model that Strop runs.
  std::vector<std::string> strop_only;

  bool can_train() const {
    for (const ParameterReport& parameter : parameters)
      if (parameter.trains) return blockers.empty();
    return false;
  }
};

// Looks at the way from every float parameter to every float output. Throws
// where the model cannot be read.
STROP_EXPORT TrainabilityReport
CheckTrainability(const ModelSource& model, const Environment& environment,
                  std::span<const CustomOpDomain* const> custom_ops = {});

}  // namespace strop
