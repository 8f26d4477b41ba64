// SPDX-License-Identifier: Apache-2.0
//
// The kernels built on Gemm, as kernel_list.cc names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// ONNX's Gemm.
KernelChoice ChooseGemm(const KernelRequest& request);
// The fused ops of domain strop.internal.
KernelChoice ChooseFusedGemm(const KernelRequest& request);
KernelChoice ChooseGemmAccumulate(const KernelRequest& request);
// MatMul, and FusedMatMul of com.microsoft.
KernelChoice ChooseMatMul(const KernelRequest& request);

}  // namespace strop
