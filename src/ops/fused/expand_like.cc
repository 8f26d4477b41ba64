// SPDX-License-Identifier: Apache-2.0
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

void InferExpandLike(InferContext& c) {
  c.SetOutput(0, c.input(0).type,
              BroadcastShapes(c.node(), c.input(0).shape, c.input(1).shape));
}

void ExpandLike(const KernelContext& c) {
  const Shape& y = c.output(0).shape();
  const Dims from = BroadcastStrides(c.input(0).shape(), y);
  const Dims to = Strides(y);
  StridedCopy copy;
  for (size_t i = 0; i < y.rank(); ++i) copy.AddAxis(y[i], from[i], to[i]);
  copy.Run(c, c.input(0), c.output(0));
}

}  // namespace

// Expand to the shape of another tensor, whose layout a kernel may follow.
extern constexpr OpDef kInternalExpandLike = {
    .name = "ExpandLike",
    .domain = kInternal,
    .inputs = {2, 2},
    .infer = InferExpandLike,
    .reference = ByteKernel<ExpandLike>(),
    .shape_inputs = {1}};

}  // namespace strop::ops
