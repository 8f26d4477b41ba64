// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "strop/module.h"
#include "strop/platform.h"

namespace strop {

// The files that make a model trainable, as `generate_artifacts` names them.
struct ArtifactFolder {
  std::filesystem::path folder;
  std::filesystem::path train;
  std::optional<std::filesystem::path> eval;
  std::optional<std::filesystem::path> optimizer;
  std::filesystem::path checkpoint;  // as it was made; may not exist

  // Throws if `folder` is no folder or has no training model.
  static ArtifactFolder Open(const std::filesystem::path& folder,
                             FileSystem& files);

  ModelIdentifiers models() const;
  // Where training puts its results unless told otherwise.
  std::filesystem::path trained() const { return folder / "trained"; }
  // The checkpoint to evaluate or export: `chosen` if it is not empty, else
  // the trained one if there is one, else the one that came with the models.
  std::filesystem::path CheckpointToUse(const std::filesystem::path& chosen,
                                        FileSystem& files) const;
};

inline constexpr char kCheckpointName[] = "checkpoint";

}  // namespace strop
