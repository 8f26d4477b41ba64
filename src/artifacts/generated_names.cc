// SPDX-License-Identifier: Apache-2.0
#include "artifacts/generated_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/throw.h"

namespace strop {
namespace {

[[noreturn]] void ThrowTaken(const std::string& name, std::string_view what) {
  Throw(ErrorCode::kInvalidArgument,
        "the model has {} \"{}\", the name that training gives to a value of "
        "its own: give it another name",
        what, name);
}

// Whether a sub-graph reads it, under the name.
bool IsCaptured(const Graph& graph, ValueId id) {
  return std::ranges::any_of(graph.order(), [&](NodeId node_id) {
    const Node& node = graph.node(node_id);
    return std::ranges::count(graph.Reads(node), id) >
           std::ranges::count(node.inputs, id);
  });
}

void RefuseInterface(const Graph& graph, const std::string& name) {
  const ValueId id = graph.Find(name);
  if (!id) return;
  if (graph.value(id).is_input) ThrowTaken(name, "an input");
  if (graph.value(id).is_output) ThrowTaken(name, "an output");
}

void Free(Graph& graph, const std::string& name) {
  const ValueId id = graph.Find(name);
  if (!id) return;
  RefuseInterface(graph, name);
  if (graph.value(id).initializer) ThrowTaken(name, "a constant");
  if (IsCaptured(graph, id))
    ThrowTaken(name, "a value that a sub-graph reads,");
  graph.Rename(id, graph.FreshName(name));
}

}  // namespace

std::string AccumulationBufferOf(const std::string& parameter) {
  return parameter + "_grad.accumulation.buffer";
}

std::string AccumulatedOf(const std::string& parameter) {
  return parameter + "_grad.accumulation.out";
}

void FreeGradientNames(Graph& graph, const std::vector<ValueId>& trained) {
  Free(graph, std::string(kResetFlag));
  for (const ValueId id : trained) {
    const std::string name = graph.value_name(id);
    RefuseInterface(graph, name + "_grad");
    Free(graph, AccumulationBufferOf(name));
    Free(graph, AccumulatedOf(name));
  }
}

void TellNodesApart(Graph& graph) {
  std::set<std::string> names;
  for (const NodeId id : graph.order()) names.insert(graph.node(id).name);
  std::set<std::string> met;
  std::map<std::string, int> last;  // number that was given
  for (const NodeId id : graph.order()) {
    std::string& name = graph.node(id).name;
    if (name.empty() || met.insert(name).second) continue;
    std::string other;
    do {
      other = fmt::format("{}_{}", name, ++last[name]);
    } while (!names.insert(other).second);
    name = other;
  }
}

}  // namespace strop
