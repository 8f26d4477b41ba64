// SPDX-License-Identifier: Apache-2.0
//
// Which values of the forward pass a plan keeps for the backward pass, and
// which it computes again there (the op Recomputed of mark_recompute).
#pragma once

#include <cstddef>
#include <span>

#include "runtime/plan.h"

namespace strop {

// Slots: a value, the same computed again, and the one that readers in the
// backward pass read, which shares one of the two.
struct RecomputeChoice {
  int kept = -1;
  int again = -1;
  int result = -1;
  bool open = true;  // false: the value is kept
};

// Makes each choice, points `result` at it, and takes out the steps that
// nobody needs then. To be called before PlaceBuffers.
//
// As long as that lowers the plan's peak, the value is given up whose second
// computation costs least for the bytes that it saves. Without a limit
// (`most_bytes` 0) this ends where it would cost more than it is worth; with
// one, where the arena fits, or nothing is left to give up.
//
// `pinned` slots keep their bytes to the end of the plan.
void ChooseRecompute(Plan& plan, std::span<const RecomputeChoice> choices,
                     std::span<const int> pinned, size_t most_bytes);

}  // namespace strop
