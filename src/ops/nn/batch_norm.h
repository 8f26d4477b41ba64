// SPDX-License-Identifier: Apache-2.0
//
// The plain kernels of BatchNormalization, which ops with more around them
// share. A channel is read as a whole before any of it is written.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

// X, scale, bias, mean, variance -> Y, running mean, running variance, saved
// mean and, as output 4, either variance or 1 / sqrt(variance + epsilon).
void InferBatchNorm(InferContext& c);
template <class T>
void BatchNorm(const KernelContext& c, bool saves_inverse);

// dY, X, scale, saved mean, saved 1 / sqrt(variance + epsilon) -> dX, dscale,
// dbias. The kernel reads `dy` for input 0.
void InferBatchNormGrad(InferContext& c);
template <class T>
void BatchNormGrad(const KernelContext& c, const T* dy);

}  // namespace strop::ops
