// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/graph.h"

namespace strop {

// The graph as text, one line a node, for tests of passes and for people:
//   (x: float32[batch, 784], w: float32[10, 784]) {
//     axes = int64[1] {0}
//     y = Gemm(x, w) {transB = 1}
//   } (y)
// Initializers stand first, with their elements where they are few; an input
// or output that is left out is `_`. Ends with a line end.
std::string Print(const Graph& graph);

}  // namespace strop
