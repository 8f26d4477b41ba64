// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "strop/error.h"

namespace strop {

// Sets the seed of everything random (Dropout, random ops, shuffling) in
// Modules created afterwards. Nodes with a seed attribute keep theirs. The
// one global of Strop; may be called from any thread at any time. The
// initial seed is 0.
STROP_EXPORT void SetSeed(int64_t seed);
STROP_EXPORT int64_t GetSeed();

// Names one stream of random numbers: the session's seed, the node that
// draws, and the train step in which it draws.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t node = 0;
  uint64_t step = 0;
};

}  // namespace strop
