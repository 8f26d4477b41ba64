// SPDX-License-Identifier: Apache-2.0
//
// Random numbers of a node. Every number depends on (seed, node, step,
// element) only, so that threads do not matter.
#pragma once

#include "base/random.h"
#include "ops/op_util.h"

namespace strop::ops {

// The stream of this node in this step. A node with an attribute `seed` (an
// int or a float) has a stream of its own, the same in every session.
RandomKey StreamOf(const KernelContext& c);

// Uniform in [0, 1) with 53 random bits.
double UniformAt(const RandomKey& key, int64_t element);

// From the normal distribution with mean 0 and variance 1.
double NormalAt(const RandomKey& key, int64_t element);

}  // namespace strop::ops
