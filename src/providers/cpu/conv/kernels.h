// SPDX-License-Identifier: Apache-2.0
//
// The convolution, pooling and batch norm kernels of our own, as kernel_list.cc
// names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// Loops over vectors of filters, blocked outputs, 1 or 2 spatial axes.
KernelChoice ChooseDirectConv(const KernelRequest& request);
// com.microsoft:ConvGrad, strop.internal:ConvGradAccumulate
KernelChoice ChooseDirectConvGrad(const KernelRequest& request);

// A filter for each channel, blocked tensors, 1 or 2 spatial axes.
KernelChoice ChooseDepthwiseConv(const KernelRequest& request);
// com.microsoft:ConvGrad, strop.internal:ConvGradAccumulate
KernelChoice ChooseDepthwiseConvGrad(const KernelRequest& request);

// Matrix multiplication over im2col, plain layout, any spatial rank.
KernelChoice ChooseGemmConv(const KernelRequest& request);
// com.microsoft:ConvGrad, strop.internal:ConvGradAccumulate
KernelChoice ChooseGemmConvGrad(const KernelRequest& request);

// Pooling in the layout in which the input lies, up to 3 spatial axes.
KernelChoice ChooseMaxPool(const KernelRequest& request);
// strop.internal:MaxPoolGrad, for the indices of the kernel above.
KernelChoice ChooseMaxPoolGrad(const KernelRequest& request);
KernelChoice ChooseAveragePool(const KernelRequest& request);
// strop.internal:AveragePoolGrad
KernelChoice ChooseAveragePoolGrad(const KernelRequest& request);
// Reads any layout, writes a plain one.
KernelChoice ChooseGlobalAveragePool(const KernelRequest& request);

// FusedConv with Relu or Clip, by a kernel of Conv.
KernelChoice ChooseFusedConv(const KernelRequest& request);

// By the kernels of Conv and ConvGrad.
KernelChoice ChooseConvTranspose(const KernelRequest& request);
// com.microsoft:ConvTransposeGrad
KernelChoice ChooseConvTransposeGrad(const KernelRequest& request);

// Concat, ConcatTraining; Split, SplitTraining.
KernelChoice ChooseConcat(const KernelRequest& request);
KernelChoice ChooseSplit(const KernelRequest& request);
// strop.internal:ExpandLike of a number a channel.
KernelChoice ChooseExpandLike(const KernelRequest& request);

// BatchNormalization, BatchNormInternal, strop.internal:BatchNormActivation.
KernelChoice ChooseBatchNorm(const KernelRequest& request);
// BatchNormalizationGrad, strop.internal:BatchNormActivationGrad.
KernelChoice ChooseBatchNormGrad(const KernelRequest& request);

}  // namespace strop
