// SPDX-License-Identifier: Apache-2.0
//
// What `strop prepare`, and `strop train` of a bare model, ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strop/artifacts.h"

namespace strop {

struct PrepareOptions {
  std::vector<std::string> losses;  // [FACTOR*]KIND[:OUTPUT[:TARGET]]
  std::filesystem::path loss_model;
  // Lists with commas: names or globs, and names.
  std::vector<std::string> train, freeze;
  std::vector<std::string> outputs;
  std::string optimizer = "adamw";
  std::optional<float> clip, weight_decay;
  std::optional<int64_t> opset;

  bool any() const { return !losses.empty() || !loss_model.empty(); }
};

void AddPrepareOptions(CLI::App& verb, PrepareOptions& options);

// Throws UsageError for a text that makes no sense.
ArtifactOptions ToArtifactOptions(const PrepareOptions& options);

}  // namespace strop
