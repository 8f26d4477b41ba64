// SPDX-License-Identifier: Apache-2.0
//
// Moving tensors between the plain and the channel-blocked layouts.
#pragma once

#include <cstddef>

#include "strop/execution_provider.h"

namespace strop {

// Copies a tensor of `shape` (batch, channels, spatial...) and elements of
// 1, 2, 4 or 8 bytes from one layout to another. Channels that pad the last
// block come out as zero, whatever the source holds there.
void Reorder(const KernelContext& context, const Shape& shape,
             size_t element_size, Layout from, const void* source, Layout to,
             void* target);

// strop.internal:Reorder: the source's layout is that of the request's
// input, the target's is the attribute `layout`.
KernelChoice ChooseReorder(const KernelRequest& request);

}  // namespace strop
