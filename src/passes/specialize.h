// SPDX-License-Identifier: Apache-2.0
//
// Specialize: rewrites a graph that was read into the one that runs. Its
// internal ops (domain strop.internal) are never written to a file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace strop {

// One rewrite. `run` leaves the graph's meaning as it is and its nodes
// sorted; nodes that it makes keep the names of those they replace, for
// errors and profiles.
struct Pass {
  std::string_view name;
  void (*run)(Graph& graph);
  // What runs in its place where memory is limited; null: the same.
  void (*run_limited)(Graph& graph) = nullptr;
};

struct SpecializeOptions {
  // Names of passes to leave out.
  std::span<const std::string> disabled;
  // BatchNormalization in training form writes its running statistics back
  // into those of its inputs that are graph inputs.
  bool update_batch_norm_statistics = false;
  // The session has a memory limit: Pass::run_limited runs.
  bool memory_is_limited = false;
};

// The passes in the order in which they run.
std::span<const Pass> SpecializePasses();

// Runs them. Throws kInvalidArgument for a disabled name that no pass has.
void Specialize(Graph& graph, const SpecializeOptions& options = {});

}  // namespace strop
