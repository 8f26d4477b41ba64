// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/conv_spec.h"

#include <algorithm>

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

ConvGradSpec MakeConvGradSpec(const KernelRequest& request) {
  const bool accumulates = request.op.name == "ConvGradAccumulate";
  return {.conv = MakeConvSpec(request.node, request.inputs[1].info.shape,
                               request.inputs[2].info.shape),
          .dy_shape = request.inputs[0].info.shape,
          .accumulates = accumulates,
          .has_dx = request.has_output(0),
          .has_dw = accumulates || request.has_output(1),
          .has_db = accumulates ? request.has_input(4) : request.has_output(2)};
}

std::string ConvDeclines(const KernelRequest& request, const ConvSpec& spec) {
  for (const KernelInput& input : request.inputs) {
    const DataType type = input.info.type;
    if (type != DataType::kFloat32 && type != DataType::kUndefined &&
        type != DataType::kBool) {
      return DataTypeName(type);
    }
  }
  // In floating point, as the products may be beyond any integer.
  constexpr double kMostElements = 2147483648.0;
  const ops::Window& w = spec.window;
  auto padded = static_cast<double>(std::max(spec.channels, spec.filters));
  double output = padded;
  for (size_t i = 0; i < w.rank; ++i) {
    padded *= static_cast<double>(w.input[i] + w.pad_begin[i] + w.pad_end[i]);
    output *= static_cast<double>(w.output[i]);
  }
  if (std::max(padded, output) > kMostElements) {
    return "images of more than 2^31 elements";
  }
  return {};
}

}  // namespace strop
