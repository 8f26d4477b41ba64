// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan. They run sub-graphs, which the executor does
// (runtime/control_flow.h): what they give is known once they have run.
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// Never called by the executor.
void InferControl(InferContext& c) {
  c.node().Fail("its outputs are known once it has run",
                ErrorCode::kNotImplemented);
}

}  // namespace

// condition -> the outputs of then_branch or else_branch.
extern constexpr OpDef kIf = {.name = "If",
                              .inputs = {1, 1},
                              .outputs = {0, Arity::kVariadic},
                              .infer = InferControl};

// most iterations (optional), condition (optional), carried values ->
// carried values, stacked scan outputs.
extern constexpr OpDef kLoop = {.name = "Loop",
                                .inputs = {0, Arity::kVariadic},
                                .outputs = {0, Arity::kVariadic},
                                .infer = InferControl};

// Before opset 9 there is a batch axis, and input 0 holds the length of each
// sequence (optional).
extern constexpr OpDef kScan8 = {.name = "Scan",
                                 .since = 8,
                                 .inputs = {0, Arity::kVariadic},
                                 .outputs = {0, Arity::kVariadic},
                                 .infer = InferControl};

// States, scan inputs -> states, stacked scan outputs.
extern constexpr OpDef kScan9 = {.name = "Scan",
                                 .since = 9,
                                 .inputs = {1, Arity::kVariadic},
                                 .outputs = {0, Arity::kVariadic},
                                 .infer = InferControl};

}  // namespace strop::ops
