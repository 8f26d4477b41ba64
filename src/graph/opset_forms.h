// SPDX-License-Identifier: Apache-2.0
//
// Opset forms: one spelling of each op inside Strop, that of the newest
// opset. Each form is a rewrite that is one to one (an attribute becomes an
// input, an op is renamed); Restore inverts it for the graph's own opset.
// A version that means something else is not a form but an OpDef of its own.
#pragma once

#include "graph/graph.h"

namespace strop {

// Rewrites nodes (sub-graphs too) to the newest spelling. Constant inputs
// that it makes are initializers named after their node.
void NormalizeForms(Graph& graph);

// The inverse: what NormalizeForms made goes back to the spelling of
// graph.opset(""); throws kNotImplemented for a node that has no such
// spelling (an axes input that is not constant, say).
void RestoreForms(Graph& graph);

}  // namespace strop
