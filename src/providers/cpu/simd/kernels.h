// SPDX-License-Identifier: Apache-2.0
//
// The vectorized kernels, as kernel_list.cc names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

KernelChoice ChooseSimdRelu(const KernelRequest& request);

}  // namespace strop
