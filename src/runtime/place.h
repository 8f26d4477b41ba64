// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/plan.h"

namespace strop {

// Gives every buffer and every scratch of the plan its offset in the arena.
// Slots that share memory (views, aliases) become one buffer; an output is
// written over an input where OpDef::may_overwrite allows it and nobody reads
// the input later. `pinned` slots keep their bytes to the end of the plan.
void PlaceBuffers(Plan& plan, std::span<const int> pinned);

}  // namespace strop
