// SPDX-License-Identifier: Apache-2.0
//
// LSTMGrad of ONNX Runtime's training graphs does not see the peepholes,
// through which gradients flow as well. Ours reads them as one more input:
// that of the LSTMTraining whose gates it reads.
#include "passes/passes.h"

namespace strop {
namespace {

constexpr size_t kGates = 8;       // of LSTMGrad
constexpr size_t kPeepholes = 12;  // of LSTMGrad
constexpr size_t kForwardPeepholes = 7;

}  // namespace

void NamePeepholes(Graph& graph) {
  for (NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op_type != "LSTMGrad" || node.domain != kMicrosoft ||
        node.input(kPeepholes)) {
      continue;
    }
    const Node* forward =
        ProducerOf(graph, node.input(kGates), kMicrosoft, "LSTMTraining");
    if (forward == nullptr || !forward->input(kForwardPeepholes)) continue;
    node.inputs.resize(kPeepholes + 1);
    node.inputs[kPeepholes] = forward->input(kForwardPeepholes);
  }
}

}  // namespace strop
