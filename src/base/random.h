// SPDX-License-Identifier: Apache-2.0
//
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011). A number depends on its key
// and its position only, never on which thread asks.
#pragma once

#include <array>
#include <cstdint>

#include "strop/random.h"

namespace strop {

// Four independent 32-bit words for the block `index` of elements.
std::array<uint32_t, 4> RandomBlock(const RandomKey& key, uint64_t index);

// Uniform in [0, 1) with 24 random bits, for element `index`.
float RandomUniform(const RandomKey& key, uint64_t index);

// A permutation of 0..n-1 for one epoch: Fisher-Yates over RandomBlock.
class Shuffler {
 public:
  Shuffler(uint64_t seed, uint64_t epoch);
  // A number uniform in [0, bound), bound > 0.
  uint64_t Next(uint64_t bound);

 private:
  RandomKey key_;
  uint64_t position_ = 0;
};

}  // namespace strop
