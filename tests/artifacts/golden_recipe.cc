// SPDX-License-Identifier: Apache-2.0
#include "artifacts/golden_recipe.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace strop::golden {
namespace {

std::filesystem::path Folder(const std::string& name) {
  return std::filesystem::path(STROP_TEST_DATA) / "golden" / name;
}

Loss LossOf(const std::string& name) {
  static const std::map<std::string, LossKind> kinds = {
      {"MSELoss", LossKind::kMeanSquaredError},
      {"CrossEntropyLoss", LossKind::kCrossEntropy},
      {"BCEWithLogitsLoss", LossKind::kBinaryCrossEntropyWithLogits},
      {"L1Loss", LossKind::kL1}};
  return {.kind = kinds.at(name)};
}

// The two recipes whose loss or optimizer is described in words.
void SetCustomLoss(ArtifactOptions& options) {
  options.losses = {{.kind = LossKind::kMeanSquaredError,
                     .input = "boxes_out",
                     .target = "box_target",
                     .weight = 0.4f},
                    {.kind = LossKind::kCrossEntropy,
                     .input = "kinds_out",
                     .target = "kind_labels",
                     .weight = 0.6f}};
  auto& names = options.additional_output_names;
  names.insert(names.begin(), {"onnx::reducemean_output::6", "onnx::loss::9"});
}

void SetClippedAdamW(ArtifactOptions& options) {
  options.optimizer = OptimizerKind::kAdamW;
  options.adamw = {
      .beta1 = 0.8f, .beta2 = 0.99f, .epsilon = 1e-5f, .weight_decay = 0.05f};
  options.clip_grad_norm = 0.5f;
}

}  // namespace

ArtifactOptions RecipeOf(const std::string& name) {
  const nlohmann::json recipe =
      nlohmann::json::parse(std::ifstream(Folder(name) / "recipe.json"));
  const nlohmann::json& arguments = recipe.contains("train")
                                        ? recipe.at("train")
                                        : recipe.at("generate_artifacts");
  ArtifactOptions options;
  options.requires_grad =
      arguments.at("requires_grad").get<std::vector<std::string>>();
  options.frozen_params =
      arguments.at("frozen_params").get<std::vector<std::string>>();
  if (const auto& outputs = arguments.at("additional_output_names");
      !outputs.is_null()) {
    options.additional_output_names = outputs.get<std::vector<std::string>>();
  }
  options.nominal_checkpoint = arguments.value("nominal_checkpoint", false);
  if (name == "custom_loss") {
    SetCustomLoss(options);
  } else {
    options.losses = {LossOf(arguments.at("loss"))};
  }
  if (name == "clip_grad_norm") {
    SetClippedAdamW(options);
  } else {
    options.optimizer = arguments.at("optimizer") == "SGD"
                            ? OptimizerKind::kSgd
                            : OptimizerKind::kAdamW;
  }
  return options;
}

std::filesystem::path PrepareCase(const std::string& name,
                                  const std::filesystem::path& root,
                                  const Environment& environment) {
  const std::filesystem::path folder = root / name;
  std::filesystem::remove_all(folder);
  GenerateArtifacts(Folder(name) / "model.onnx", RecipeOf(name), folder,
                    environment);
  return folder;
}

}  // namespace strop::golden
