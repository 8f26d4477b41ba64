// SPDX-License-Identifier: Apache-2.0
//
// What an eval model is made of: a network that makes predictions from data,
// and a loss that compares them with labels. Nothing in the file says which
// is which; the shape of the graph does.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset.h"
#include "graph/graph.h"
#include "strop/checkpoint_state.h"

namespace strop {

struct EvalRoles {
  // Inputs that only the loss reads.
  std::vector<std::string> label_inputs;
  // What an exported model should give: the outputs that do not depend on a
  // label, else the values that feed the loss. May be empty.
  std::vector<std::string> predictions;
};

// `is_parameter` tells which inputs of the graph are parameters.
EvalRoles FindEvalRoles(
    const Graph& graph,
    const std::function<bool(std::string_view)>& is_parameter);

EvalRoles ReadEvalRoles(const std::filesystem::path& eval_model,
                        const CheckpointState& state, FileSystem& files);

// The labels of the rows, where exactly one label input holds classes.
std::vector<int64_t> LabelsOf(const EvalRoles& roles, const Dataset& data);

}  // namespace strop
