// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft QLinearAveragePool and QLinearGlobalAveragePool: x, scale,
// zero point, scale and zero point of y.
#include "ops/nn/pool.h"
#include "ops/quantize/channels_last.h"
#include "ops/quantize/quantized.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

void RequireTypes(const InferContext& c) {
  RequireQuantizedTriple(c, 0);
  RequireQuantization(c, 3, 4, c.input(0).type);
}

void InferAveragePool(InferContext& c) {
  RequireTypes(c);
  const PlaneLayout x(c.node(), c.input(0).shape);
  const Shape y =
      WindowOutputShape(PoolWindow(c.node(), x.shape), x.shape[0], x.shape[1]);
  c.SetOutput(0, c.input(0).type, x.Restore(y));
}

// A sum for each output.
size_t AveragePoolScratch(const KernelRequest& request) {
  return static_cast<size_t>(request.outputs[0].shape.element_count()) *
         sizeof(double);
}

void AveragePool(const KernelContext& c) {
  const OpNode& node = c.node();
  const PlaneLayout x(node, c.input(0).shape());
  const Window w = PoolWindow(node, x.shape);
  const bool include_pad = node.Int("count_include_pad", 0) != 0;
  const Quantization from = ReadQuantization(c, 1, 2);
  const Quantization to = ReadQuantization(c, 3, 4);
  const int64_t out = w.output_size();
  const int64_t stride = w.stride[w.rank - 1] * x.spatial_step;
  double* sums = reinterpret_cast<double*>(c.scratch());
  const auto pool_plane = [&](int64_t plane) {
    const int64_t start = x.PlaneStart(plane, w.input_size());
    const int64_t y_start = x.PlaneStart(plane, out);
    double* sum = sums + plane * out;
    std::fill_n(sum, out, 0.0);
    ForEachTapRow(w, [&](int64_t, int64_t xo, int64_t yo, int64_t count) {
      double taps[kQuantBlock];
      for (int64_t j = 0; j < count; j += kQuantBlock) {
        const int64_t size = std::min(kQuantBlock, count - j);
        LoadDoubles(node, c.input(0), start + xo * x.spatial_step + j * stride,
                    stride, size, taps);
        for (int64_t k = 0; k < size; ++k)
          sum[yo + j + k] += taps[k] - from.zero;
      }
    });
    for (int64_t i = 0; i < out; ++i) {
      const int64_t count = AverageCount(w, i, include_pad);
      double y =
          count > 0 ? sum[i] / static_cast<double>(count) * from.scale : 0;
      Quantize(node, c.output(0), to, y_start + i * x.spatial_step, 1, &y);
    }
  };
  c.ParallelFor(x.shape[0] * x.shape[1],
                static_cast<double>(out * (w.kernel_size() + 20)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) pool_plane(i);
                });
}

void InferGlobalAveragePool(InferContext& c) {
  RequireTypes(c);
  const PlaneLayout x(c.node(), c.input(0).shape);
  Dims ones;
  ones.fill(1);
  ones[0] = x.shape[0];
  ones[1] = x.shape[1];
  const Shape y(std::span<const int64_t>(ones.data(), x.shape.rank()));
  if (x.shape.element_count(2, x.shape.rank()) == 0) {
    Fail(c.node(), "has no elements to average in {}",
         c.input(0).shape.ToString());
  }
  c.SetOutput(0, c.input(0).type, x.Restore(y));
}

void GlobalAveragePool(const KernelContext& c) {
  const OpNode& node = c.node();
  const PlaneLayout x(node, c.input(0).shape());
  const int64_t size = x.shape.element_count(2, x.shape.rank());
  const Quantization from = ReadQuantization(c, 1, 2);
  const Quantization to = ReadQuantization(c, 3, 4);
  const auto average_plane = [&](int64_t plane) {
    const int64_t start = x.PlaneStart(plane, size);
    double values[kQuantBlock], sum = 0;
    for (int64_t i = 0; i < size; i += kQuantBlock) {
      const int64_t count = std::min(kQuantBlock, size - i);
      LoadDoubles(node, c.input(0), start + i * x.spatial_step, x.spatial_step,
                  count, values);
      for (int64_t j = 0; j < count; ++j) sum += values[j] - from.zero;
    }
    double y = sum / static_cast<double>(size) * from.scale;
    Quantize(node, c.output(0), to, plane, 1, &y);
  };
  c.ParallelFor(x.shape[0] * x.shape[1], 2 * static_cast<double>(size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) average_plane(i);
                });
}

}  // namespace

extern constexpr OpDef kQLinearAveragePool = {
    .name = "QLinearAveragePool",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .infer = InferAveragePool,
    .reference = Untyped<EightBits>(AveragePool, AveragePoolScratch),
    .stops_gradient = {0, 1, 2, 3, 4}};

extern constexpr OpDef kQLinearGlobalAveragePool = {
    .name = "QLinearGlobalAveragePool",
    .domain = kMicrosoft,
    .inputs = {2, 5},
    .infer = InferGlobalAveragePool,
    .reference = Untyped<EightBits>(GlobalAveragePool),
    .stops_gradient = {0, 1, 2, 3, 4}};

}  // namespace strop::ops
