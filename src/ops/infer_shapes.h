// SPDX-License-Identifier: Apache-2.0
//
// Element types and dimensions of a graph's values before any input is there.
//
// Every OpDef infers concrete shapes. To learn what holds for all sizes, the
// graph is inferred twice, with other sizes for each symbol of its inputs: a
// dimension that stays is a number, one that goes with a symbol is that
// symbol, and two that go alike are equal, under a name of their own. Sizes
// are taken from several families (a model may want multiples of 32, or short
// sequences, or one batch size in all inputs); the first that all nodes
// accept is used, else the one that goes furthest.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "strop/op.h"

namespace strop {

struct InferenceReport {
  // Errors of nodes whose outputs could not be inferred, one a node, in the
  // sizes that went furthest.
  std::vector<std::string> errors;
  // Those among them that no sizes would mend: of arity and attributes, and
  // what was the same in all sizes.
  struct Fault {
    NodeId node;
    std::string text;
  };
  std::vector<Fault> faults;
};

// Whether a dimension's symbol is a name that inference made up.
bool IsDerivedSymbol(std::string_view symbol);

// Writes Value::type of all values that can be inferred; what the file
// declares stays where nothing else is known.
InferenceReport InferShapes(Graph& graph,
                            std::span<const CustomOpDomain* const> custom = {});

}  // namespace strop
