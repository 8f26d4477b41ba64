// SPDX-License-Identifier: Apache-2.0
//
// The optimizer's model: one node over lists of tensors, with a clip before
// it where it was asked for.
#include "artifacts/notes.h"
#include "artifacts/training_graphs.h"
#include "base/throw.h"
#include "ops/graph_builder.h"

namespace strop {
namespace {

std::vector<Dimension> OneElement() { return {{.value = 1, .symbol = {}}}; }

ValueType ListOf(DataType type) {
  ValueType list = ValueType::OfTensor(type, std::nullopt);
  list.kind = ValueType::Kind::kTensorList;
  return list;
}

ValueId AddClip(Graph& graph, ValueId gradients, const OptimizerTraits& traits,
                float max_norm) {
  Node clip;
  clip.name =
      fmt::format("onnx::InplaceClipGradNorm::{}", traits.names_used + 2);
  clip.op_type = "InplaceClipGradNorm";
  clip.domain = kMicrosoft;
  clip.inputs = {gradients};
  const ValueId clipped = graph.AddValue(
      fmt::format("onnx::clip_grad_norm_output::{}", traits.names_used + 1),
      ListOf(traits.type));
  clip.outputs = {clipped};
  clip.SetAttribute("max_norm", max_norm);
  graph.AddNode(std::move(clip));
  return clipped;
}

void SetAdamW(Node& node, const AdamWOptions& options) {
  node.op_type = "AdamWOptimizer";
  node.SetAttribute("adam_mode", int64_t{1});  // decay after the update
  node.SetAttribute("alpha", options.beta1);
  node.SetAttribute("beta", options.beta2);
  node.SetAttribute("correct_bias", int64_t{options.bias_correction});
  node.SetAttribute("epsilon", options.epsilon);
  node.SetAttribute("weight_decay", options.weight_decay);
}

bool HasTooFewBits(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16;
}

}  // namespace

std::string WhyNoOptimizer(DataType type) {
  if (!HasTooFewBits(type)) return "";
  return fmt::format("{}, which no optimizer updates", DataTypeName(type));
}

void CheckTypesOf(const std::vector<TensorData>& parameters) {
  std::vector<std::string> refused;
  for (const TensorData& data : parameters)
    if (HasTooFewBits(data.type))
      refused.push_back(
          fmt::format("\"{}\" ({})", data.name, DataTypeName(data.type)));
  if (refused.empty()) return;
  Throw(ErrorCode::kInvalidArgument,
        "the optimizers update float32 and float64; of other types {} {}: "
        "keep them as they are (frozen_params, --freeze), make them float32 "
        "with a Cast behind, or make artifacts without an optimizer",
        refused.size() == 1 ? "is" : "are", Listing(refused));
}

OptimizerModel MakeOptimizerModel(const ArtifactOptions& options,
                                  const OptimizerTraits& traits) {
  const DataType type = traits.type;
  const int64_t opset = traits.opset;
  Model model;
  model.ir_version = traits.ir_version;
  model.producer_name = "strop";
  Graph& graph = model.graph;
  graph.name = "graph";
  graph.opset_imports[std::string(kMicrosoft)] = 1;
  graph.opset_imports[std::string(kOnnx)] = opset;
  model.opset_imports = {{std::string(kMicrosoft), 1},
                         {std::string(kOnnx), opset}};

  const bool adamw = options.optimizer == OptimizerKind::kAdamW;
  const ValueId rate = graph.AddInput(
      "learning_rate", ValueType::OfTensor(DataType::kFloat32, OneElement()));
  const ValueId step = graph.AddInput(
      "step", ValueType::OfTensor(DataType::kInt64, OneElement()));
  const ValueId params = graph.AddInput("params", ListOf(type));
  ValueId gradients = graph.AddInput("gradients", ListOf(type));
  // SGD has moments too, which it does not read: devices feed them.
  const ValueId first = graph.AddInput("first_order_moments", ListOf(type));
  ValueId second;
  if (adamw) second = graph.AddInput("second_order_moments", ListOf(type));
  if (options.clip_grad_norm)
    gradients = AddClip(graph, gradients, traits, *options.clip_grad_norm);

  const int named = traits.names_used + (options.clip_grad_norm ? 2 : 0);
  Node node;
  node.domain = kMicrosoft;
  if (adamw) {
    SetAdamW(node, options.adamw);
    node.inputs = {rate, step, params, gradients, first, second};
  } else {
    node.op_type = "SGDOptimizerV2";
    node.inputs = {rate, params, gradients};
  }
  node.name = fmt::format("onnx::{}::{}", node.op_type, named + 2);
  const ValueId flag = graph.AddValue(
      fmt::format("onnx::{}::{}",
                  adamw ? "adamw.updated_flag" : "update_completed", named + 1),
      ValueType::OfTensor(DataType::kBool, OneElement()));
  node.outputs = {flag};
  graph.AddNode(std::move(node));
  graph.MarkOutput(flag);
  return {std::move(model), named + 2};
}

}  // namespace strop
