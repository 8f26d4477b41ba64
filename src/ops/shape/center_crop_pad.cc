// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

void InferCenterCropPad(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const auto axes = c.node().Ints("axes");
  RequireIndices(c, 1);
  const std::vector<int64_t> wanted = c.IntValues(1);
  const bool all = !c.node().Has("axes");
  if (wanted.size() != (all ? x.rank() : axes.size())) {
    Fail(c.node(), "{} sizes for {} axes", wanted.size(),
         all ? x.rank() : axes.size());
  }
  NormalizeAxes(c.node(), axes, x.rank());  // none named twice
  std::vector<int64_t> dims(x.begin(), x.end());
  for (size_t i = 0; i < wanted.size(); ++i) {
    dims[all ? i : NormalizeAxis(c.node(), axes[i], x.rank())] = wanted[i];
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// An odd cell more is cropped, or padded, at the end.
void CenterCropPad(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  const Shape& y = c.output(0).shape();
  const Dims from = Strides(x), to = Strides(y);
  StridedCopy copy;
  for (size_t i = 0; i < x.rank(); ++i) {
    copy.from_offset += std::max<int64_t>(0, x[i] - y[i]) / 2 * from[i];
    copy.to_offset += std::max<int64_t>(0, y[i] - x[i]) / 2 * to[i];
    copy.AddAxis(std::min(x[i], y[i]), from[i], to[i]);
  }
  FillZero(c.output(0));
  copy.Run(c, c.input(0), c.output(0));
}

// --- Gradients

// What was cropped is padded, and the other way round.
void CenterCropPadGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  Var shape = b.Shape(c.x());
  if (c.node().Has("axes")) {
    const auto axes = c.node().Ints("axes");
    shape = b.Op("Gather", {shape, b.Ints({axes.begin(), axes.end()})});
  }
  c.Set(0, b.Op("CenterCropPad", {c.dy(), shape}, c.attributes()));
}

}  // namespace

// x, shape -> x cropped, or padded with zeros, at both ends of each axis.
extern constexpr OpDef kCenterCropPad = {
    .name = "CenterCropPad",
    .inputs = {2, 2},
    .infer = InferCenterCropPad,
    .reference = ByteKernel<CenterCropPad>(),
    .value_inputs = {1},
    .gradient = Rule(CenterCropPadGradient),
    .stops_gradient = {1}};

}  // namespace strop::ops
