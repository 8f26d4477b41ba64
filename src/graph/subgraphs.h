// SPDX-License-Identifier: Apache-2.0
//
// Going through the graphs that a node's attributes hold.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace strop {

// Calls fn(graph) for each.
template <class Fn>
void ForEachSubgraph(const Node& node, Fn&& fn) {
  using GraphPtr = std::shared_ptr<const Graph>;
  for (const Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<GraphPtr>(&attribute.value)) {
      if (*one) fn(**one);
    } else if (auto* many =
                   std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
      for (const GraphPtr& graph : *many)
        if (graph) fn(*graph);
    }
  }
}

// Runs fn on a copy of each, which takes the place of the old.
template <class Fn>
void RewriteSubgraphs(Node& node, Fn&& fn) {
  using GraphPtr = std::shared_ptr<const Graph>;
  const auto rewrite = [&](GraphPtr& graph) {
    if (!graph) return;
    auto copy = std::make_shared<Graph>(*graph);
    fn(*copy);
    graph = std::move(copy);
  };
  for (Attribute& attribute : node.attributes) {
    if (auto* one = std::get_if<GraphPtr>(&attribute.value)) {
      rewrite(*one);
    } else if (auto* many =
                   std::get_if<std::vector<GraphPtr>>(&attribute.value)) {
      for (GraphPtr& graph : *many) rewrite(graph);
    }
  }
}

}  // namespace strop
