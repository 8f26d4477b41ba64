// SPDX-License-Identifier: Apache-2.0
//
// The vectorized kernels, as kernel_list.cc names them.
#pragma once

#include "providers/cpu/simd/operations.h"
#include "strop/execution_provider.h"

namespace strop {

KernelChoice ChooseUnary(const KernelRequest& request,
                         UnaryOperation operation);
template <UnaryOperation operation>
KernelChoice ChooseUnary(const KernelRequest& request) {
  return ChooseUnary(request, operation);
}

KernelChoice ChooseBinary(const KernelRequest& request,
                          BinaryOperation operation);
template <BinaryOperation operation>
KernelChoice ChooseBinary(const KernelRequest& request) {
  return ChooseBinary(request, operation);
}

KernelChoice ChooseClip(const KernelRequest& request);
// strop.internal:ClipGrad
KernelChoice ChooseClipGrad(const KernelRequest& request);
// Gelu, BiasGelu, FastGelu and, with dy first, their gradients.
KernelChoice ChooseGelu(const KernelRequest& request, bool tanh);
KernelChoice ChooseGeluGrad(const KernelRequest& request, bool tanh);
template <bool tanh>
KernelChoice ChooseGelu(const KernelRequest& request) {
  return ChooseGelu(request, tanh);
}
template <bool tanh>
KernelChoice ChooseGeluGrad(const KernelRequest& request) {
  return ChooseGeluGrad(request, tanh);
}

// `coerced`: from `axis` on all axes are one, as before opset 13.
KernelChoice ChooseSoftmax(const KernelRequest& request,
                           SoftmaxOperation operation, bool coerced);
// Softmax and LogSoftmax changed their meaning under one name.
template <SoftmaxOperation operation>
KernelChoice ChooseSoftmax(const KernelRequest& request) {
  return ChooseSoftmax(request, operation, request.op.since < 13);
}
template <SoftmaxOperation operation, bool coerced>
KernelChoice ChooseSoftmaxGrad(const KernelRequest& request) {
  return ChooseSoftmax(request, operation, coerced);
}

// `centered`: with the mean taken out.
KernelChoice ChooseLayerNorm(const KernelRequest& request, bool centered);
KernelChoice ChooseLayerNormGrad(const KernelRequest& request, bool centered);
template <bool centered>
KernelChoice ChooseLayerNorm(const KernelRequest& request) {
  return ChooseLayerNorm(request, centered);
}
template <bool centered>
KernelChoice ChooseLayerNormGrad(const KernelRequest& request) {
  return ChooseLayerNormGrad(request, centered);
}

KernelChoice ChooseSum(const KernelRequest& request);

// `biased`: with a bias before and perhaps a residual behind it.
KernelChoice ChooseDropout(const KernelRequest& request, bool biased);
template <bool biased>
KernelChoice ChooseDropout(const KernelRequest& request) {
  return ChooseDropout(request, biased);
}
KernelChoice ChooseDropoutGrad(const KernelRequest& request);

KernelChoice ChooseTranspose(const KernelRequest& request);
KernelChoice ChooseGatherGrad(const KernelRequest& request);
KernelChoice ChooseGatherGradAccumulate(const KernelRequest& request);

KernelChoice ChooseReduceSum(const KernelRequest& request);
KernelChoice ChooseReduceMean(const KernelRequest& request);
KernelChoice ChooseReduceSumAccumulate(const KernelRequest& request);

KernelChoice ChooseSoftmaxCrossEntropyLoss(const KernelRequest& request);
KernelChoice ChooseSoftmaxCrossEntropyLossGrad(const KernelRequest& request);

KernelChoice ChooseInPlaceAccumulator(const KernelRequest& request);
KernelChoice ChooseAdamW(const KernelRequest& request);
KernelChoice ChooseSgd(const KernelRequest& request);
KernelChoice ChooseClipGradNorm(const KernelRequest& request);

}  // namespace strop
