// SPDX-License-Identifier: Apache-2.0
//
// The kernels that oneDNN serves, as kernel_list.cc names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

KernelChoice ChooseOneDnnConv(const KernelRequest& request);
// com.microsoft:ConvGrad, strop.internal:ConvGradAccumulate
KernelChoice ChooseOneDnnConvGrad(const KernelRequest& request);

}  // namespace strop
