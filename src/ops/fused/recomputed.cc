// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {
namespace {

void InferRecomputed(InferContext& c) {
  RequireSame(c, 0, 1);
  SameAsInput(c);
}

}  // namespace

// A value of the forward pass, and the same computed again in the backward
// pass: the output is either. Which of them, the plan decides when it knows
// the sizes (runtime/choose_recompute.h).
extern constexpr OpDef kInternalRecomputed = {
    .name = "Recomputed",
    .domain = kInternal,
    .inputs = {2, 2},
    .infer = InferRecomputed,
    .reference = ByteKernel<CopyInput>(),
    .is_view = true};

}  // namespace strop::ops
