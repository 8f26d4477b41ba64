// SPDX-License-Identifier: Apache-2.0
//
// Opset forms: one spelling of each op inside Strop, that of the newest
// opset. Each form is a rewrite that is one to one (an attribute becomes an
// input, an op is renamed); Restore inverts it for the graph's own opset.
// A version that means something else is not a form but an OpDef of its own.
//
// A rewritten node remembers how it was spelt (Node::spelling). As long as
// nobody changed what the rewrite made, Restore gives back the very same node;
// a node that was changed, or is new, is spelt from what it says now.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace strop {

// A node before and after its rewrite. Values are named, not numbered, so
// that a node may move to another graph.
struct Spelling {
  std::string op_type, op_type_now;
  std::vector<std::string> inputs, inputs_now;
  std::vector<Attribute> attributes, attributes_now;
  // The initializers that the rewrite made, with the owner of their bytes.
  std::vector<std::pair<std::string, std::shared_ptr<const void>>> made;
};

// Rewrites nodes (sub-graphs too) to the newest spelling. Constant inputs
// that it makes are initializers named after their node. Graphs of opsets 1
// to 5, or without the default domain, are left alone.
void NormalizeForms(Graph& graph);

// The inverse: what NormalizeForms made goes back to the spelling of
// graph.opset(""); throws kNotImplemented for a node that has no such
// spelling (an axes input that is not constant, say). Does nothing where
// Graph::file_spelling says that the graph is spelt so already.
void RestoreForms(Graph& graph);

}  // namespace strop
