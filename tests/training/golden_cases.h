// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop::golden {

// The cases of tests/data/golden that Strop trains as ONNX Runtime does. A
// case is added here and nowhere else.
inline constexpr const char* kCases[] = {
    "mlp_ce_adamw",
    "mlp_ce_adamw_accumulate2",
    "lenet_ce_sgd",
    "mse_regression",
    "mse_regression_batch1",
    "l1_regression",
    "bce_multilabel",
    "clip_grad_norm",
    "custom_loss",
    "nominal",
    "mobilenet_block_frozen",
    "mobilenet_block_full",
    "resnet8_bn",
    "resnet8_bn_constant_stats",
    "resnet8_bn_inference_form",
    "exported_residual_train",
    "bert_tiny",
    "lstm_last",
    "gru_last",
    "exported_lstm",
    "kitchen_sink_opset13",
    "kitchen_sink_opset17",
};

}  // namespace strop::golden
