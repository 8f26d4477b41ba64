// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "training/session.h"

namespace strop {

// Types of the graph's outputs with symbolic dimensions, found by making
// plans for two tuples of made-up sizes: what is equal in both is a number,
// what follows a symbol of an input is that symbol. kUnknown where the graph
// cannot be planned without data.
std::vector<ValueType> InferOutputTypes(const Graph& graph,
                                        const Session& session);

}  // namespace strop
