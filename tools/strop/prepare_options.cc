// SPDX-License-Identifier: Apache-2.0
#include "prepare_options.h"

#include <cmath>
#include <map>

#include "usage.h"

namespace strop {
namespace {

const std::map<std::string, LossKind>& LossKinds() {
  static const std::map<std::string, LossKind> kinds = {
      {"cross_entropy", LossKind::kCrossEntropy},
      {"mse", LossKind::kMeanSquaredError},
      {"l1", LossKind::kL1},
      {"bce", LossKind::kBinaryCrossEntropyWithLogits}};
  return kinds;
}

std::string CheckPositive(const std::string& text) {
  float number = -1;
  if (CLI::detail::lexical_cast(text, number) && number > 0 &&
      std::isfinite(number)) {
    return {};
  }
  return "wanted a number above 0, got \"" + text + "\"";
}

// KIND:OUTPUT:TARGET. Names of values may hold colons themselves
// ("onnx::Gemm_5"): single ones separate, double ones belong to a name.
std::vector<std::string> SplitAtColons(const std::string& text) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ':') {
      parts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ':') {
      parts.back() += "::";
      ++i;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

Loss ParseLoss(const std::string& text) {
  Loss loss;
  std::string rest = text;
  const size_t star = text.find('*');
  if (star != std::string::npos) {
    const std::string factor = text.substr(0, star);
    if (!CLI::detail::lexical_cast(factor, loss.weight) ||
        !std::isfinite(loss.weight)) {
      ThrowUsage("--loss {}: \"{}\" is no factor", text, factor);
    }
    rest = text.substr(star + 1);
  }
  const std::vector<std::string> parts = SplitAtColons(rest);
  const auto kind = LossKinds().find(parts[0]);
  if (kind == LossKinds().end()) {
    ThrowUsage(
        "--loss {}: there is no loss \"{}\"; there are cross_entropy, "
        "mse, l1 and bce",
        text, parts[0]);
  }
  if (parts.size() > 3)
    ThrowUsage("--loss {}: wanted [FACTOR*]KIND[:OUTPUT[:TARGET]]", text);
  loss.kind = kind->second;
  if (parts.size() > 1) loss.input = parts[1];
  if (parts.size() > 2) loss.target = parts[2];
  return loss;
}

}  // namespace

void AddPrepareOptions(CLI::App& verb, PrepareOptions& options) {
  auto* loss =
      verb.add_option("--loss", options.losses,
                      "cross_entropy, mse, l1 or bce (with logits). Where the "
                      "model has several outputs, :OUTPUT says which one is "
                      "meant, :TARGET how its target is called; several "
                      "losses are added up, each times its FACTOR")
          ->type_name("[FACTOR*]KIND[:OUTPUT[:TARGET]]")
          ->allow_extra_args(false);
  verb.add_option("--loss-model", options.loss_model,
                  "A model whose first output is the loss: inputs that are "
                  "called like values of the model read them, the others are "
                  "targets")
      ->check(CheckNotEmpty)
      ->excludes(loss);
  verb.add_option("--train", options.train,
                  "Parameters to train: names, * and ? stand for any text and "
                  "any character (default: all weights and biases that the "
                  "loss depends on; scalars, exponents and tables only by "
                  "their full names)")
      ->type_name("GLOB")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--freeze", options.freeze,
                  "Parameters to keep in the checkpoint as they are; a full "
                  "name here beats a pattern of --train, and the reverse")
      ->type_name("GLOB")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--outputs", options.outputs,
                  "Values to put out beside the loss, separated by commas "
                  "(default: the model's outputs)")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--opset", options.opset,
                  "Opset of the artifacts, if newer than the model's")
      ->check(CLI::PositiveNumber);
  verb.add_option("--optimizer", options.optimizer, "adamw (default) or sgd")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  verb.add_option("--clip", options.clip,
                  "Scale gradients down to this norm before each step")
      ->check(CheckPositive);
  verb.add_option("--weight-decay", options.weight_decay,
                  "Weight decay of adamw (default 0)")
      ->check(CheckPositive);
}

ArtifactOptions ToArtifactOptions(const PrepareOptions& options) {
  ArtifactOptions artifacts;
  for (const std::string& text : options.losses)
    artifacts.losses.push_back(ParseLoss(text));
  if (!options.loss_model.empty()) artifacts.loss_model = options.loss_model;
  artifacts.requires_grad = options.train;
  artifacts.frozen_params = options.freeze;
  artifacts.strict_names = true;
  artifacts.additional_output_names = options.outputs;
  artifacts.keep_outputs = options.outputs.empty();
  artifacts.optimizer =
      options.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  artifacts.clip_grad_norm = options.clip;
  artifacts.opset = options.opset;
  if (options.weight_decay) {
    if (options.optimizer != "adamw")
      ThrowUsage("--weight-decay needs --optimizer adamw");
    artifacts.adamw.weight_decay = *options.weight_decay;
  }
  return artifacts;
}

}  // namespace strop
