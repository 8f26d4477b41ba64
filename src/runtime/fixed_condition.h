// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/lower.h"

namespace strop {

// Whether the condition that a Loop's sub-graph gives (output 0) depends on
// constants, captured values and the condition that it takes (input 1) alone:
// then it is the same after every iteration.
bool HasFixedCondition(const LoweredBody& body);

}  // namespace strop
