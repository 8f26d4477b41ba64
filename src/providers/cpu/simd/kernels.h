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
