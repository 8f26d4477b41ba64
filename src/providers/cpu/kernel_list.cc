// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/kernel_list.h"

#include "graph/graph.h"
#include "providers/cpu/simd/kernels.h"

namespace strop {
namespace {

constexpr KernelEntry kKernels[] = {
    {kOnnx, "Relu", "simd.relu", ChooseSimdRelu},
};

}  // namespace

std::span<const KernelEntry> KernelList() { return kKernels; }

}  // namespace strop
