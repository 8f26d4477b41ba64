// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/kernel_list.h"

#include "graph/graph.h"
#include "providers/cpu/attention/kernels.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/conv/reorder.h"
#include "providers/cpu/gemm/kernels.h"
#include "providers/cpu/recurrent/kernels.h"
#include "providers/cpu/simd/kernels.h"
#ifdef STROP_WITH_ONEDNN
#include "providers/cpu/onednn/kernels.h"
#endif

namespace strop {
namespace {

// clang-format off
constexpr KernelEntry kKernels[] = {
    // Matrix products
    {kOnnx, "Gemm", "gemm", ChooseGemm},
    {kOnnx, "MatMul", "gemm.matmul", ChooseMatMul},
    {kMicrosoft, "FusedMatMul", "gemm.matmul", ChooseMatMul},
    {kInternal, "MatMul", "gemm.matmul", ChooseMatMul},
    {kInternal, "Gemm", "gemm", ChooseFusedGemm},
    {kInternal, "GemmAccumulate", "gemm.accumulate", ChooseGemmAccumulate},

    // Attention
    {kInternal, "Attention", "attention", ChooseAttention},
    {kInternal, "AttentionGrad", "attention", ChooseAttentionGrad},

    // Convolution
#ifdef STROP_WITH_ONEDNN
    {kOnnx, "Conv", "onednn.conv", ChooseOneDnnConv},
    {kMicrosoft, "ConvGrad", "onednn.conv", ChooseOneDnnConvGrad},
    {kInternal, "ConvGradAccumulate", "onednn.conv", ChooseOneDnnConvGrad},
#endif
    {kOnnx, "Conv", "direct.conv", ChooseDirectConv},
    {kMicrosoft, "ConvGrad", "direct.conv", ChooseDirectConvGrad},
    {kInternal, "ConvGradAccumulate", "direct.conv", ChooseDirectConvGrad},
    {kOnnx, "Conv", "depthwise.conv", ChooseDepthwiseConv},
    {kMicrosoft, "ConvGrad", "depthwise.conv", ChooseDepthwiseConvGrad},
    {kInternal, "ConvGradAccumulate", "depthwise.conv", ChooseDepthwiseConvGrad},
    {kOnnx, "Conv", "gemm.conv", ChooseGemmConv},
    {kMicrosoft, "ConvGrad", "gemm.conv", ChooseGemmConvGrad},
    {kInternal, "ConvGradAccumulate", "gemm.conv", ChooseGemmConvGrad},

#ifdef STROP_WITH_ONEDNN
    {kInternal, "FusedConv", "onednn.conv", ChooseOneDnnConv},
    {kMicrosoft, "FusedConv", "onednn.conv", ChooseOneDnnConv},
#endif
    {kInternal, "FusedConv", "direct.conv", ChooseDirectConv},
    {kMicrosoft, "FusedConv", "direct.conv", ChooseDirectConv},
    {kInternal, "FusedConv", "depthwise.conv", ChooseDepthwiseConv},
    {kMicrosoft, "FusedConv", "depthwise.conv", ChooseDepthwiseConv},
    {kInternal, "FusedConv", "conv.fused", ChooseFusedConv},
    {kMicrosoft, "FusedConv", "conv.fused", ChooseFusedConv},
    {kOnnx, "ConvTranspose", "conv.transpose", ChooseConvTranspose},
    {kMicrosoft, "ConvTransposeGrad", "conv.transpose", ChooseConvTransposeGrad},

    // Pooling
    {kOnnx, "MaxPool", "pool.max", ChooseMaxPool},
    {kInternal, "MaxPoolGrad", "pool.max", ChooseMaxPoolGrad},
    {kOnnx, "AveragePool", "pool.average", ChooseAveragePool},
    {kInternal, "AveragePoolGrad", "pool.average", ChooseAveragePoolGrad},
    {kOnnx, "GlobalAveragePool", "pool.average", ChooseGlobalAveragePool},

    // Recurrent networks
    {kOnnx, "LSTM", "recurrent.lstm", ChooseLstm},
    {kMicrosoft, "LSTMTraining", "recurrent.lstm", ChooseLstm},
    {kMicrosoft, "LSTMGrad", "recurrent.lstm", ChooseLstmGrad},
    {kOnnx, "GRU", "recurrent.gru", ChooseGru},
    {kMicrosoft, "GRUTraining", "recurrent.gru", ChooseGru},
    {kMicrosoft, "GRUGrad", "recurrent.gru", ChooseGruGrad},

    // Normalization
    {kOnnx, "BatchNormalization", "batchnorm", ChooseBatchNorm},
    {kMicrosoft, "BatchNormInternal", "batchnorm", ChooseBatchNorm},
    {kInternal, "BatchNormActivation", "batchnorm", ChooseBatchNorm},
    {kInternal, "BatchNormApply", "batchnorm", ChooseBatchNorm},
    {kMicrosoft, "BatchNormalizationGrad", "batchnorm", ChooseBatchNormGrad},
    {kInternal, "BatchNormActivationGrad", "batchnorm", ChooseBatchNormGrad},

    // Layouts
    {kInternal, "Reorder", "reorder", ChooseReorder},
    {kOnnx, "Concat", "copy.concat", ChooseConcat},
    {kMicrosoft, "ConcatTraining", "copy.concat", ChooseConcat},
    {kOnnx, "Split", "copy.split", ChooseSplit},
    {kMicrosoft, "SplitTraining", "copy.split", ChooseSplit},
    {kInternal, "ExpandLike", "copy.expand", ChooseExpandLike},

    // Elementwise
    {kOnnx, "Relu", "simd", ChooseUnary<UnaryOperation::kRelu>},
    {kOnnx, "Neg", "simd", ChooseUnary<UnaryOperation::kNeg>},
    {kOnnx, "Abs", "simd", ChooseUnary<UnaryOperation::kAbs>},
    {kOnnx, "Sqrt", "simd", ChooseUnary<UnaryOperation::kSqrt>},
    {kOnnx, "Exp", "simd", ChooseUnary<UnaryOperation::kExp>},
    {kOnnx, "Log", "simd", ChooseUnary<UnaryOperation::kLog>},
    {kOnnx, "Tanh", "simd", ChooseUnary<UnaryOperation::kTanh>},
    {kOnnx, "Sigmoid", "simd", ChooseUnary<UnaryOperation::kSigmoid>},
    {kOnnx, "Clip", "simd", ChooseClip},
    {kInternal, "ClipGrad", "simd", ChooseClipGrad},
    {kOnnx, "Add", "simd", ChooseBinary<BinaryOperation::kAdd>},
    {kOnnx, "Sum", "simd", ChooseBinary<BinaryOperation::kAdd>},
    {kOnnx, "Sub", "simd", ChooseBinary<BinaryOperation::kSub>},
    {kOnnx, "Mul", "simd", ChooseBinary<BinaryOperation::kMul>},
    {kOnnx, "Div", "simd", ChooseBinary<BinaryOperation::kDiv>},
    {kOnnx, "Sum", "simd.sum", ChooseSum},
    {kMicrosoft, "ReluGrad", "simd", ChooseBinary<BinaryOperation::kReluGrad>},
    {kMicrosoft, "TanhGrad", "simd", ChooseBinary<BinaryOperation::kTanhGrad>},
    {kMicrosoft, "SigmoidGrad", "simd", ChooseBinary<BinaryOperation::kSigmoidGrad>},

    {kOnnx, "Gelu", "simd.gelu", ChooseGelu<false>},
    {kMicrosoft, "Gelu", "simd.gelu", ChooseGelu<false>},
    {kMicrosoft, "BiasGelu", "simd.gelu", ChooseGelu<false>},
    {kMicrosoft, "FastGelu", "simd.gelu", ChooseGelu<true>},
    {kMicrosoft, "GeluGrad", "simd.gelu", ChooseGeluGrad<false>},
    {kMicrosoft, "BiasGeluGrad_dX", "simd.gelu", ChooseGeluGrad<false>},
    {kMicrosoft, "FastGeluGrad", "simd.gelu", ChooseGeluGrad<true>},
    {kMicrosoft, "BiasFastGeluGrad_dX", "simd.gelu", ChooseGeluGrad<true>},

    {kOnnx, "Dropout", "simd.dropout", ChooseDropout<false>},
    {kMicrosoft, "BitmaskDropout", "simd.dropout", ChooseDropout<false>},
    {kMicrosoft, "BiasDropout", "simd.dropout", ChooseDropout<true>},
    {kMicrosoft, "BitmaskBiasDropout", "simd.dropout", ChooseDropout<true>},
    {kMicrosoft, "DropoutGrad", "simd.dropout", ChooseDropoutGrad},
    {kMicrosoft, "BitmaskDropoutGrad", "simd.dropout", ChooseDropoutGrad},

    // Rows
    {kOnnx, "Softmax", "simd.softmax", ChooseSoftmax<SoftmaxOperation::kSoftmax>},
    {kOnnx, "LogSoftmax", "simd.softmax", ChooseSoftmax<SoftmaxOperation::kLogSoftmax>},
    {kMicrosoft, "SoftmaxGrad", "simd.softmax", ChooseSoftmaxGrad<SoftmaxOperation::kSoftmaxGrad, true>},
    {kMicrosoft, "SoftmaxGrad_13", "simd.softmax", ChooseSoftmaxGrad<SoftmaxOperation::kSoftmaxGrad, false>},
    {kMicrosoft, "LogSoftmaxGrad", "simd.softmax", ChooseSoftmaxGrad<SoftmaxOperation::kLogSoftmaxGrad, true>},
    {kMicrosoft, "LogSoftmaxGrad_13", "simd.softmax", ChooseSoftmaxGrad<SoftmaxOperation::kLogSoftmaxGrad, false>},
    {kOnnx, "LayerNormalization", "simd.layer_norm", ChooseLayerNorm<true>},
    {kOnnx, "SimplifiedLayerNormalization", "simd.layer_norm", ChooseLayerNorm<false>},
    {kOnnx, "RMSNormalization", "simd.layer_norm", ChooseLayerNorm<false>},
    {kMicrosoft, "LayerNormalizationGrad", "simd.layer_norm", ChooseLayerNormGrad<true>},
    {kMicrosoft, "SimplifiedLayerNormalizationGrad", "simd.layer_norm", ChooseLayerNormGrad<false>},

    // Moving elements
    {kOnnx, "Transpose", "simd.transpose", ChooseTranspose},
    {kMicrosoft, "GatherGrad", "simd.gather_grad", ChooseGatherGrad},
    {kInternal, "GatherGradAccumulate", "simd.gather_grad", ChooseGatherGradAccumulate},

    // Reductions
    {kOnnx, "ReduceSum", "simd.reduce", ChooseReduceSum},
    {kOnnx, "ReduceMean", "simd.reduce", ChooseReduceMean},
    {kInternal, "ReduceSumAccumulate", "simd.reduce", ChooseReduceSumAccumulate},

    // Losses
    {kOnnx, "SoftmaxCrossEntropyLoss", "simd.loss", ChooseSoftmaxCrossEntropyLoss},
    {kMicrosoft, "SoftmaxCrossEntropyLossGrad", "simd.loss", ChooseSoftmaxCrossEntropyLossGrad},

    // Parameters
    {kMicrosoft, "InPlaceAccumulatorV2", "simd.accumulate", ChooseInPlaceAccumulator},
    {kMicrosoft, "InplaceClipGradNorm", "simd.clip", ChooseClipGradNorm},
    {kMicrosoft, "SGDOptimizerV2", "simd.sgd", ChooseSgd},
    {kMicrosoft, "AdamWOptimizer", "simd.adamw", ChooseAdamW},
};
// clang-format on

}  // namespace

std::span<const KernelEntry> KernelList() { return kKernels; }

KernelChoice ChooseFromList(const KernelRequest& request) {
  std::string reasons;
  for (const KernelEntry& entry : kKernels) {
    if (entry.op != request.op.name || entry.domain != request.op.domain) {
      continue;
    }
    KernelChoice choice = entry.choose(request);
    if (choice.kernel) {
      if (choice.name.empty()) choice.name = entry.name;
      return choice;
    }
    if (!reasons.empty()) reasons += "; ";
    reasons.append(entry.name).append(": ").append(choice.reason);
  }
  return KernelChoice::Decline(reasons.empty() ? "no kernel for this op"
                                               : std::move(reasons));
}

}  // namespace strop
