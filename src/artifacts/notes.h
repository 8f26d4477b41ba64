// SPDX-License-Identifier: Apache-2.0
//
// What the reports of artifact making tell beside names: each function gives
// lines of one sentence, none where there is nothing to tell.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "artifacts/weights.h"
#include "graph/graph.h"

namespace strop {

using Lines = std::vector<std::string>;

// "a, b, c and 4 more".
std::string Listing(const std::vector<std::string>& names);
// `float32 [batch, 784]`; ? for a dimension without a name.
std::string DescribeType(const ValueType& type);
// `"w" int8 [3, 4]`.
std::string DescribeConstant(const Graph& graph, ValueId id);

// Of the model: the weights and tables that are not trained unless they are
// named, one a line with the reason.
Lines UntrainedWeights(const Graph& graph, const Weights& weights);
// Of the graph that is trained: the same in short, and which of the trained
// are values of Constant nodes.
Lines WeightNotes(const Graph& graph, const Weights& weights,
                  const std::set<ValueId>& trainable);
// Floats that sub-graphs hold themselves, `"w" float32 (3, 4) in [If "i"]`.
Lines ConstantsInside(const Graph& graph);
Lines InsideNotes(const Graph& graph);
// Ops that only Strop has, and those that ONNX Runtime has for less than what
// is asked of them here.
Lines StropOpNotes(const Graph& training);
// ONNX's own ops that its opset lacks.
Lines NewerOpNotes(const Graph& training);
// Running statistics that several BatchNormalizations write.
Lines SharedStatisticsNotes(const Graph& graph,
                            const std::set<ValueId>& trainable);

}  // namespace strop
