// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop::golden {

// The cases of tests/data/golden that Strop trains as ONNX Runtime does. A
// case is added here and nowhere else.
inline constexpr const char* kCases[] = {
    "mlp_ce_adamw",   "mlp_ce_adamw_accumulate2", "lenet_ce_sgd",
    "mse_regression", "mse_regression_batch1",    "l1_regression",
    "bce_multilabel", "clip_grad_norm",           "custom_loss",
    "nominal",
};

}  // namespace strop::golden
