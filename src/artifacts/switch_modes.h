// SPDX-License-Identifier: Apache-2.0
//
// Dropout and BatchNormalization for training and for evaluation.
#pragma once

#include <set>

#include "artifacts/notes.h"
#include "graph/graph.h"

namespace strop {

// Nothing drops, in sub-graphs neither, and all normalize by their running
// statistics.
void SwitchToEval(Graph& graph);

// Switches Dropout off in sub-graphs, which a gradient computes again and
// would draw other numbers in, and leaves BatchNormalization as it is there,
// for they may write into no statistics. Tells of each such node.
Lines SwitchSubgraphs(Graph& graph);

// Dropout drops; a BatchNormalization whose scale or bias is trained
// normalizes by its batch; sub-graphs as above. Tells of each node that stays
// behind.
Lines SwitchToTraining(Graph& graph, const std::set<ValueId>& trainable);

}  // namespace strop
