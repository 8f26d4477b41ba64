// SPDX-License-Identifier: Apache-2.0
//
// The kernels for recurrent networks, as kernel_list.cc names them.
#pragma once

#include "strop/execution_provider.h"

namespace strop {

// LSTM and LSTMTraining, GRU and GRUTraining.
KernelChoice ChooseLstm(const KernelRequest& request);
KernelChoice ChooseGru(const KernelRequest& request);
KernelChoice ChooseLstmGrad(const KernelRequest& request);
KernelChoice ChooseGruGrad(const KernelRequest& request);

}  // namespace strop
