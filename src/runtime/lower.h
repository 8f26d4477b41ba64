// SPDX-License-Identifier: Apache-2.0
//
// Lower: what is fixed for a graph whatever its input shapes are.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "strop/op.h"

namespace strop {

struct LoweredBody;

struct LoweredGraph {
  Graph graph;
  // Nodes as they run: what the graph's outputs and custom ops need comes
  // first, in the graph's order, then the rest. A node that writes into a graph
  // input runs as soon as it can, so that what it reads can die.
  std::vector<NodeId> order;
  // The same with the nodes that write, and those that depend on them, at
  // the end: for graphs with data-dependent shapes, where what comes later
  // may still fail.
  std::vector<NodeId> order_writes_last;
  std::vector<const OpDef*> ops;    // by node index
  std::vector<bool> writes_inputs;  // by node index: mutates a graph input
  // The sub-graphs of If, Loop and Scan, by node index.
  std::map<int32_t, std::vector<LoweredBody>> bodies;
};

// A sub-graph as a graph of its own.
struct LoweredBody {
  std::string attribute;  // "then_branch", "else_branch" or "body"
  // Its inputs are those of the sub-graph, then the captured values. The
  // initializers of the graphs around are initializers here, too.
  LoweredGraph lowered;
  std::vector<ValueId> captured;  // values of the graph around
};

// Whether the node is an If, Loop or Scan of ONNX.
bool IsControlFlow(const Node& node);

// Whether the graph, or a sub-graph of it, draws random numbers.
bool DrawsRandom(const LoweredGraph& lowered);

// Finds the OpDef of every node. Throws kNotImplemented that names every
// node without one, and kInvalidGraph for a wrong number of inputs or
// outputs.
LoweredGraph Lower(Graph graph,
                   std::span<const CustomOpDomain* const> custom_ops = {});

}  // namespace strop
