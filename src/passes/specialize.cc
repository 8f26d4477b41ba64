// SPDX-License-Identifier: Apache-2.0
#include "passes/specialize.h"

#include <algorithm>
#include <limits>

#include "base/throw.h"
#include "ops/infer_shapes.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace strop {
namespace {

constexpr Pass kPasses[] = {
    // Identity hides patterns from the passes behind it.
    {"remove_identity", RemoveIdentity},
    {"use_relu_output", UseReluOutput},
    {"name_pool_shapes", NamePoolShapes},
    {"name_expanded_shapes", NameExpandedShapes},
    {"name_split_sizes", NameSplitSizes},
    {"name_peepholes", NamePeepholes},
    {"fuse_clip_grad", FuseClipGrad},
    {"fuse_batch_norm", FuseBatchNorm},
    // A Relu that a normalization took is out of the way.
    {"pool_before_relu", PoolBeforeRelu},
    {"fuse_conv", FuseConv},
    {"fuse_matmul", FuseMatMul},
    {"fuse_attention", FuseAttention},
    {"fuse_gemm", FuseGemm},
    {"fuse_accumulate", FuseAccumulate},
    {"remove_dead", RemoveDead},
    // Of the nodes as they run, in their order.
    {"write_early", WriteEarly},
    {"mark_recompute", MarkRecompute, MarkCostlyRecompute},
};

// Passes look at the inputs and outputs that an op must have.
void CheckNodes(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    // A pass goes by the name alone, whatever the opset.
    for (int64_t opset :
         {graph.opset(node.domain), std::numeric_limits<int64_t>::max()}) {
      if (const OpDef* op = FindOp(node.domain, node.op_type, opset)) {
        CheckArity(*op, OpNode(graph, node));
        break;
      }
    }
  }
}

}  // namespace

std::span<const Pass> SpecializePasses() { return kPasses; }

void Specialize(Graph& graph, const SpecializeOptions& options) {
  for (const std::string& name : options.disabled) {
    const bool known =
        std::any_of(std::begin(kPasses), std::end(kPasses),
                    [&](const Pass& pass) { return pass.name == name; });
    if (!known) {
      Throw(ErrorCode::kInvalidArgument,
            "disabled_passes names \"{}\", which is no pass", name);
    }
  }
  CheckNodes(graph);
  // Files need not tell the types and shapes that passes look at.
  InferShapes(graph);
  if (options.update_batch_norm_statistics) WriteBatchNormStatistics(graph);
  for (const Pass& pass : kPasses) {
    if (std::find(options.disabled.begin(), options.disabled.end(),
                  pass.name) == options.disabled.end()) {
      const bool limited =
          options.memory_is_limited && pass.run_limited != nullptr;
      (limited ? pass.run_limited : pass.run)(graph);
    }
  }
}

}  // namespace strop
