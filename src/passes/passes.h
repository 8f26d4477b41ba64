// SPDX-License-Identifier: Apache-2.0
//
// The single passes, for specialize.cc and for tests. Each stands in a file
// of its own, which says what it rewrites.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "strop/op.h"

namespace strop {

void RemoveIdentity(Graph& graph);
void UseReluOutput(Graph& graph);
void NamePoolShapes(Graph& graph);
void NameExpandedShapes(Graph& graph);
void NameSplitSizes(Graph& graph);
void NamePeepholes(Graph& graph);
void FuseMatMul(Graph& graph);
// Behind FuseMatMul.
void FuseAttention(Graph& graph);
void FuseGemm(Graph& graph);
void FuseGelu(Graph& graph);
void FuseLayerNorm(Graph& graph);
void FuseAccumulate(Graph& graph);
void FuseClipGrad(Graph& graph);
void FuseBatchNorm(Graph& graph);
void FuseConv(Graph& graph);
void PoolBeforeRelu(Graph& graph);
void WriteEarly(Graph& graph);
// Marks what costs little.
void MarkRecompute(Graph& graph);
// Marks all that can be computed again.
void MarkCostlyRecompute(Graph& graph);
void WriteBatchNormStatistics(Graph& graph);
// Initializers that are declared as inputs too (IR 3) have their value alone.
void UndeclareInitializers(Graph& graph);
// Takes out nodes that neither an output nor a write into an input needs,
// and initializers that nobody reads.
void RemoveDead(Graph& graph);

// --- What passes share.

// The node that computes `value` if it is `domain`.`op_type`, else null.
const Node* ProducerOf(const Graph& graph, ValueId value,
                       std::string_view domain, std::string_view op_type);

// The OpDef of the node; null for one that is not in the registry (a custom
// op, which may have any effect).
const OpDef* OpOf(const Graph& graph, const Node& node);

// By value: whether a node writes into it. Such an input of the graph may have
// changed before a node that reads it runs later than it stands.
std::vector<bool> FindWritten(const Graph& graph);

// By node: its place in order().
std::vector<size_t> PlacesInOrder(const Graph& graph);

// Whether both are known to have one shape.
bool HaveOneShape(const Graph& graph, ValueId a, ValueId b);

// Axes of a Transpose and the like.
using Axes = std::vector<int64_t>;
bool IsIdentity(const Axes& axes);

// Puts `node` where the node `id` is, at `position` in order(), under its name
// and with its outputs.
void ReplaceNode(Graph& graph, size_t position, NodeId id, Node node);

// True if `value` is read by exactly one node input and by nobody outside.
bool HasOneUse(const Graph& graph,
               const std::vector<std::vector<NodeId>>& consumers,
               ValueId value);

}  // namespace strop
