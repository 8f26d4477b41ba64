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

std::string CheckNotNegative(const std::string& text) {
  float number = -1;
  if (CLI::detail::lexical_cast(text, number) && number >= 0 &&
      std::isfinite(number)) {
    return {};
  }
  return "wanted a number from 0, got \"" + text + "\"";
}

// KIND:OUTPUT:TARGET. Names of values may hold colons themselves: single ones
// separate, double ones ("onnx::Gemm_5") belong to a name, as does what comes
// behind a backslash ("Identity\:0").
std::vector<std::string> SplitAtColons(const std::string& text) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '\\' && (next == ':' || next == '\\')) {
      parts.back() += next;
      ++i;
    } else if (text[i] != ':') {
      parts.back() += text[i];
    } else if (next == ':') {
      parts.back() += "::";
      ++i;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

// The names of all texts; a comma behind a backslash is part of a name.
std::vector<std::string> SplitAtCommas(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    names.emplace_back();
    for (size_t i = 0; i < text.size(); ++i) {
      const bool is_escaped = text.compare(i, 2, "\\,") == 0;
      if (is_escaped) ++i;
      if (text[i] == ',' && !is_escaped) {
        names.emplace_back();
      } else {
        names.back() += text[i];
      }
    }
  }
  return names;
}

Loss ParseLoss(const std::string& text) {
  Loss loss;
  std::string rest = text;
  // A * behind the kind is part of a name.
  const size_t star = text.find('*');
  if (star < text.find(':')) {
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
    ThrowUsage(
        "--loss {}: wanted [FACTOR*]KIND[:OUTPUT[:TARGET]], \\: for a colon in "
        "a name",
        text);
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
                      "meant, :TARGET how its target is called (\\: is a "
                      "colon in a name); several losses are added up, each "
                      "times its FACTOR")
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
                  "any character, \\, for a comma in a name (default: all "
                  "weights and biases that the "
                  "loss depends on; scalars, exponents and tables only by "
                  "their full names)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  verb.add_option("--freeze", options.freeze,
                  "Parameters to keep in the checkpoint as they are; a full "
                  "name here beats a pattern of --train, and the reverse")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  verb.add_option("--outputs", options.outputs,
                  "Values to put out beside the loss, separated by commas "
                  "(default: the model's outputs)")
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
      ->check(CheckNotNegative);
}

ArtifactOptions ToArtifactOptions(const PrepareOptions& options) {
  ArtifactOptions artifacts;
  for (const std::string& text : options.losses)
    artifacts.losses.push_back(ParseLoss(text));
  if (!options.loss_model.empty()) artifacts.loss_model = options.loss_model;
  artifacts.requires_grad = SplitAtCommas(options.train);
  artifacts.frozen_params = SplitAtCommas(options.freeze);
  artifacts.additional_output_names = SplitAtCommas(options.outputs);
  artifacts.strict_names = true;
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
