// SPDX-License-Identifier: Apache-2.0
//
// Names of parameters as users write them.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace strop {

// In a pattern `*` stands for any text, `?` for one character.
bool Matches(std::string_view pattern, std::string_view name);

// Why no initializer of the graph is called so: it is inside a sub-graph, or
// nowhere, and which names are near.
std::string UnknownName(const Graph& graph, const std::string& pattern);

}  // namespace strop
