// SPDX-License-Identifier: Apache-2.0
//
// What was asked for when the golden cases were made, as our options.
#pragma once

#include <string>

#include "strop/artifacts.h"

namespace strop::golden {

// From `recipe.json` of the case.
ArtifactOptions RecipeOf(const std::string& name);

// Writes the artifacts of the case's model.onnx with its recipe into a fresh
// folder under `root`, which is returned.
std::filesystem::path PrepareCase(const std::string& name,
                                  const std::filesystem::path& root,
                                  const Environment& environment);

}  // namespace strop::golden
