// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {
namespace {

void InferAssign(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireShape(c, 1, c.input(0).shape);
}

void Assign(const KernelContext& c) { CopyBytes(c.input(1), c.input(0)); }

}  // namespace

// Copies `value` into `target`, a graph input: how running statistics reach
// the checkpoint state at the end of a train step.
extern constexpr OpDef kInternalAssign = {.name = "Assign",
                                          .domain = kInternal,
                                          .inputs = {2, 2},
                                          .outputs = {0, 0},
                                          .infer = InferAssign,
                                          .reference = ByteKernel<Assign>(),
                                          .mutates = {0}};

}  // namespace strop::ops
