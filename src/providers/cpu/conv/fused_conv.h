// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "strop/execution_provider.h"

namespace strop {

// The bounds of an activation that leaves zero as it is: those of Clip, or 0
// and infinity for Relu.
struct Bounds {
  float low, high;
};

// Those of a FusedConv without a further addend; nullopt for anything else.
std::optional<Bounds> FusedBounds(const KernelRequest& request);

}  // namespace strop
