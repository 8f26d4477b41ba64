// SPDX-License-Identifier: Apache-2.0
#include "artifact_folder.h"

#include "base/path_text.h"
#include "base/throw.h"

namespace strop {

ArtifactFolder ArtifactFolder::Open(const std::filesystem::path& folder,
                                    FileSystem& files) {
  if (!files.IsDirectory(folder)) {
    Throw(files.Exists(folder) ? ErrorCode::kInvalidArgument
                               : ErrorCode::kNoSuchFile,
          "{} is not a folder; wanted one with training artifacts",
          PathText(folder));
  }
  auto optional_file = [&](const char* name) {
    std::optional<std::filesystem::path> path = folder / name;
    if (!files.Exists(*path)) path.reset();
    return path;
  };
  ArtifactFolder artifacts = {
      .folder = folder,
      .train = folder / "training_model.onnx",
      .eval = optional_file("eval_model.onnx"),
      .optimizer = optional_file("optimizer_model.onnx"),
      .checkpoint = folder / kCheckpointName};
  if (!files.Exists(artifacts.train)) {
    Throw(ErrorCode::kNoSuchFile,
          "{} has no training_model.onnx; wanted a folder with training "
          "artifacts",
          PathText(folder));
  }
  return artifacts;
}

ModelIdentifiers ArtifactFolder::models() const {
  ModelIdentifiers models = {
      .train = train, .eval = std::nullopt, .optimizer = std::nullopt};
  if (eval) models.eval = *eval;
  if (optimizer) models.optimizer = *optimizer;
  return models;
}

std::filesystem::path ArtifactFolder::CheckpointToUse(
    const std::filesystem::path& chosen, FileSystem& files) const {
  if (!chosen.empty()) return chosen;
  const std::filesystem::path trained_checkpoint = trained() / kCheckpointName;
  return files.Exists(trained_checkpoint) ? trained_checkpoint : checkpoint;
}

}  // namespace strop
