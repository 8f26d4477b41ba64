// SPDX-License-Identifier: Apache-2.0
//
// Gradients of If, Loop and Scan.
//
// If: an If on the same condition, whose branches compute the forward branch
// again and then the gradients of the values that they capture.
//
// Loop and Scan: the forward node gets scan outputs that keep what enters each
// iteration; the gradient is one Scan over them, last iteration first, whose
// body computes the iteration again and then its gradients. States are the
// gradients of carried values and the sums of those of captured values.
#pragma once

#include <functional>
#include <vector>

#include "autodiff/differentiate.h"
#include "autodiff/reach.h"
#include "graph/graph.h"

namespace strop {

bool IsControlFlow(const Graph& graph, NodeId id);

// Why the node cannot be differentiated: it does not fit its sub-graphs, or
// they draw random numbers, which the gradient would draw anew. "" if it can.
std::string BodyFault(const Graph& graph, NodeId id,
                      std::span<const CustomOpDomain* const> custom);

// The sub-graphs of the node, by attribute name.
std::vector<std::pair<std::string, std::shared_ptr<const Graph>>> BodiesOf(
    const Node& node);

// Values of the graph that the node's sub-graphs read, each once.
std::vector<ValueId> CapturedBy(const Graph& graph, const Node& node);

// The body with the types of what the graph around gives it.
Graph TypedBody(const Graph& graph, const Graph& body);

// Writes the gradient of the node; `contribute` takes those of its inputs and
// of captured values.
void DifferentiateControlFlow(
    Graph& graph, NodeId id, const Reach& reach,
    const std::vector<ValueId>& output_gradients,
    const DifferentiateOptions& options,
    const std::function<void(ValueId value, ValueId gradient)>& contribute);

}  // namespace strop
