// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "checkpoint/parameter_store.h"
#include "training/session.h"

namespace strop {

// Writes an inference model to `path`: the eval model, read anew from
// `eval_path`, cut to `output_names`, with the values of `store` as
// initializers in the order of the graph's inputs.
void ExportInferenceModel(const std::filesystem::path& eval_path,
                          ParameterStore& store, const Session& session,
                          const std::filesystem::path& path,
                          std::span<const std::string> output_names);

}  // namespace strop
