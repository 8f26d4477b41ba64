// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// The plain kernel of the node's OpDef, which serves every node that no
// provider takes; declines where the op has none for the element type.
KernelChoice MakeReferenceKernel(const KernelRequest& request);

}  // namespace strop
