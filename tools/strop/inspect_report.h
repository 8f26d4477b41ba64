// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "artifact_folder.h"
#include "graph/graph.h"
#include "metrics.h"
#include "strop/checkpoint_state.h"
#include "strop/environment.h"

namespace strop {

// A model, a checkpoint, or a folder of training artifacts.
class Inspection {
 public:
  // Reads `source`, told apart by content. `checkpoint` replaces a folder's,
  // unless it is empty.
  Inspection(const std::filesystem::path& source,
             const std::filesystem::path& checkpoint,
             const Environment& environment);

  Json Report() const;
  // What has values, for a file: initializers; parameters by name, moments
  // as "moment/PARAMETER/momentum0". Views into this object.
  std::map<std::string, Tensor> Arrays() const;

 private:
  std::filesystem::path source_;
  std::optional<Model> model_;           // of a single file
  std::map<std::string, Model> models_;  // of a folder: train, eval, optimizer
  std::optional<CheckpointState> state_;
};

// The report for people.
std::string ReportText(const Json& report);

}  // namespace strop
