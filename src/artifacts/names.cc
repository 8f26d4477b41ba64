// SPDX-License-Identifier: Apache-2.0
#include "artifacts/names.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/throw.h"
#include "graph/subgraphs.h"

namespace strop {
namespace {

bool IsGlob(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

// Insertions, deletions and exchanges that make b of a.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// `"v" is inside [If "i"]`; "" if no sub-graph holds a constant of that name.
std::string PlaceInside(const Graph& graph, std::string_view pattern) {
  std::string place;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ForEachSubgraph(node, [&](const Graph& body) {
      const auto tell = [&](ValueId value) {
        if (place.empty() && Matches(pattern, body.value_name(value)))
          place = fmt::format("\"{}\" is inside {}", body.value_name(value),
                              Describe(graph, node));
      };
      for (const ValueId value : body.initializers()) tell(value);
      for (const NodeId inner : body.order())
        if (body.node(inner).op_type == "Constant")
          tell(body.node(inner).output(0));
      if (place.empty()) place = PlaceInside(body, pattern);
    });
  }
  return place;
}

}  // namespace

bool Matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) &&
        pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string UnknownName(const Graph& graph, const std::string& pattern) {
  constexpr size_t kOffered = 5;
  const std::string place = PlaceInside(graph, pattern);
  if (!place.empty()) return place + ": what is inside a sub-graph is constant";
  std::vector<std::pair<size_t, ValueId>> near;
  for (const ValueId id : graph.initializers())
    near.emplace_back(EditDistance(pattern, graph.value_name(id)), id);
  std::ranges::sort(near);
  std::string text;
  for (size_t i = 0; i < std::min(kOffered, near.size()); ++i) {
    const TensorData& data = *graph.value(near[i].second).initializer;
    text +=
        fmt::format("{}\"{}\" {} of shape {}", i == 0 ? "" : ", ", data.name,
                    DataTypeName(data.type), Shape(data.dims).ToString());
  }
  return fmt::format("the model has no parameter {} \"{}\"{}{}",
                     IsGlob(pattern) ? "that matches" : "called", pattern,
                     text.empty() ? "" : "; near names are ", text);
}

}  // namespace strop
