// SPDX-License-Identifier: Apache-2.0
//
// Differentiate: reverse-mode differentiation of a graph, as more nodes of
// the same graph. The rule of each op stands in the op's file; here is what
// they have in common: which nodes lie on the way, the order, and sums over
// several uses of a value.
//
// Names are those of ONNX Runtime's training graphs: the gradient of T is
// T_grad, the contributions of several uses T_grad_0, T_grad_1, ... are added
// by the node AccumulateGrad_T_grad, and what a node's rule writes is called
// after it, <node>_Grad/<Op>_<n>.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "strop/op.h"

namespace strop {

struct DifferentiateOptions {
  std::span<const CustomOpDomain* const> custom = {};
};

// A place where differentiation cannot pass.
struct Blocker {
  NodeId node;
  std::string reason;  // begins with [Op "name"]
};

// Appends nodes that compute, for each value of `wrt` (an input, an
// initializer or any node's output), the gradient of
//   sum over i of <seeds[i], outputs[i]>
// and returns the gradients' values, called <name>_grad; an invalid id where
// the outputs do not depend on the value. A seed has the shape and type of
// its output. Infers shapes first.
//
// Throws kNotImplemented, naming every node that has no rule and the way
// from a value of `wrt` through it, and kInvalidArgument for an output that
// is not of a float type. The graph is then left in a valid state, with the
// nodes that could be written.
std::vector<ValueId> Differentiate(Graph& graph,
                                   std::span<const ValueId> outputs,
                                   std::span<const ValueId> seeds,
                                   std::span<const ValueId> wrt,
                                   const DifferentiateOptions& options = {});

// The initializer <name of output>_grad: 1, in the shape of a scalar output.
// Throws kInvalidArgument where the output is known to be no scalar.
ValueId AddScalarSeed(Graph& graph, ValueId output);

}  // namespace strop
