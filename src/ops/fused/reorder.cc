// SPDX-License-Identifier: Apache-2.0
#include "ops/op_util.h"

namespace strop::ops {

// The same elements in another layout of memory (attribute layout). The plan
// inserts it between kernels of a provider, which runs it.
extern constexpr OpDef kInternalReorder = {
    .name = "Reorder", .domain = kInternal, .infer = SameAsInput};

}  // namespace strop::ops
