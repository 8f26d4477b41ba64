// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft QLinearReduceMean: x, scale, zero point, scale and zero point
// of y.
#include "ops/quantize/quantized.h"
#include "ops/reduce.h"

namespace strop::ops {
namespace {

// Without the attribute all axes.
AxisSet MeanAxes(const OpNode& node, size_t rank) {
  if (node.Has("axes")) return NormalizeAxes(node, node.Ints("axes"), rank);
  AxisSet all;
  for (size_t i = 0; i < rank; ++i) all.set(i);
  return all;
}

void InferQLinearReduceMean(InferContext& c) {
  const TensorInfo& x = c.input(0);
  RequireQuantizedTriple(c, 0);
  RequireQuantization(c, 3, 4, x.type);
  const AxisSet reduced = MeanAxes(c.node(), x.shape.rank());
  const Shape y =
      ReducedShape(x.shape, reduced, c.node().Int("keepdims", 1) != 0);
  if (x.shape.element_count() == 0 && y.element_count() != 0) {
    Fail(c.node(), "{} has no elements to average", x.shape.ToString());
  }
  c.SetOutput(0, x.type, y);
}

void QLinearReduceMean(const KernelContext& c) {
  const OpNode& node = c.node();
  const Shape& shape = c.input(0).shape();
  const ReduceWalk walk(shape, MeanAxes(node, shape.rank()));
  const Quantization from = ReadQuantization(c, 1, 2);
  const Quantization to = ReadQuantization(c, 3, 4);
  const double count = static_cast<double>(walk.reduced_count);
  const auto average = [&](int64_t output) {
    const int64_t first = walk.KeptOffset(output);
    double sum = 0;
    for (int64_t i = 0; i < walk.reduced_count; ++i) {
      sum +=
          DoubleAt(node, c.input(0), first + walk.ReducedOffset(i)) - from.zero;
    }
    double mean = sum / count * from.scale;
    Quantize(node, c.output(0), to, output, 1, &mean);
  };
  c.ParallelFor(walk.output_count, 10 * count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) average(i);
  });
}

}  // namespace

extern constexpr OpDef kQLinearReduceMean = {
    .name = "QLinearReduceMean",
    .domain = kMicrosoft,
    .inputs = {4, 5},
    .infer = InferQLinearReduceMean,
    .reference = Untyped<EightBits>(QLinearReduceMean),
    .stops_gradient = {0, 1, 2, 3, 4}};

}  // namespace strop::ops
