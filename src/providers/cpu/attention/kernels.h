// SPDX-License-Identifier: Apache-2.0
//
// The kernels of attention, as kernel_list.cc names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// The internal ops Attention and AttentionGrad: see ops/fused/attention.h.
KernelChoice ChooseAttention(const KernelRequest& request);
KernelChoice ChooseAttentionGrad(const KernelRequest& request);

}  // namespace strop
