// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace strop {

// Gives a model whose shapes are inferred the newer opset `opset`, and the IR
// version that it needs. Each node keeps its meaning; throws kNotImplemented
// naming all nodes whose op means something else there, and kInvalidArgument
// for an opset that is older than the model's or that Strop does not know.
void ConvertOpset(Model& model, int64_t opset);

}  // namespace strop
