// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/conv_spec.h"

#include "ops/nn/conv_kernels.h"

namespace strop {

ConvSpec MakeConvSpec(const OpNode& node, const Shape& x, const Shape& w) {
  const ops::ConvSizes sizes = ops::ReadConvSizes(node, x, w);
  return {.window = sizes.window,
          .batch = sizes.batch,
          .channels = sizes.in_channels,
          .filters = sizes.out_channels,
          .groups = sizes.group};
}

ConvGradSpec MakeConvGradSpec(const KernelRequest& request, bool accumulates) {
  return {.conv = MakeConvSpec(request.node, request.inputs[1].info.shape,
                               request.inputs[2].info.shape),
          .dy_shape = request.inputs[0].info.shape,
          .accumulates = accumulates,
          .has_dx = request.has_output(0),
          .has_dw = accumulates || request.has_output(1),
          .has_db = accumulates ? request.has_input(4) : request.has_output(2)};
}

std::string OtherType(const KernelRequest& request) {
  for (const KernelInput& input : request.inputs) {
    const DataType type = input.info.type;
    if (type != DataType::kFloat32 && type != DataType::kUndefined &&
        type != DataType::kBool) {
      return DataTypeName(type);
    }
  }
  return {};
}

}  // namespace strop
