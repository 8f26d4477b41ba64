// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

namespace strop {

void UndeclareInitializers(Graph& graph) {
  std::vector<ValueId> inputs;
  for (const ValueId id : graph.inputs())
    if (!graph.value(id).initializer) inputs.push_back(id);
  graph.SetInputs(std::move(inputs));
}

}  // namespace strop
