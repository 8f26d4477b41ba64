// SPDX-License-Identifier: Apache-2.0
//
// Gather and its gradient: rows picked along one axis.
#include <cstring>

#include "ops/axis.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

// Each index picks an inner block.
AxisSizes ReadSizes(const OpNode& node, const Shape& data) {
  return ReadAxis(node, data, 0);
}

Shape GatherShape(const OpNode& node, const Shape& data, const Shape& indices) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", 0), data.rank());
  std::vector<int64_t> dims(data.begin(), data.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.begin() + axis + 1, data.end());
  return Shape(dims);
}

void InferGather(InferContext& c) {
  RequireIndices(c, 1);
  c.SetOutput(0, c.input(0).type,
              GatherShape(c.node(), c.input(0).shape, c.input(1).shape));
}

void Gather(const KernelContext& c) {
  const Tensor& indices = c.input(1);
  const AxisSizes s = ReadSizes(c.node(), c.input(0).shape());
  const int64_t count = indices.element_count();
  const size_t block =
      static_cast<size_t>(s.inner) * DataTypeSize(c.input(0).type());
  const auto* from = static_cast<const std::byte*>(c.input(0).data());
  auto* to = static_cast<std::byte*>(c.output(0).data());
  for (int64_t i = 0; i < count; ++i) {
    CheckIndex(c.node(), IndexAt(indices, i), s.size);
  }
  if (block == 0) return;
  c.ParallelFor(s.outer * count, 2 + 0.1 * static_cast<double>(block),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t index = IndexAt(indices, row % count);
                    const int64_t source = row / count * s.size +
                                           (index < 0 ? index + s.size : index);
                    std::memcpy(to + row * block, from + source * block, block);
                  }
                });
}

// Rows that a training graph leaves out: fewer indices than rows.
void InferShrunkenGather(InferContext& c) {
  const Shape& indices = c.input(1).shape;
  const AxisSizes s = ReadSizes(c.node(), c.input(0).shape);
  if (indices.rank() != 1 || indices[0] >= s.size) {
    Fail(c.node(), "takes fewer indices than the axis has elements, {}, not {}",
         s.size, indices.ToString());
  }
  InferGather(c);
}

void InferGatherGrad(InferContext& c) {
  RequireIndices(c, 1);
  const Shape dx(c.IntValues(0));
  RequireShape(c, 2, GatherShape(c.node(), dx, c.input(1).shape));
  c.SetOutput(0, c.input(2).type, dx);
}

template <class T>
void GatherGrad(const KernelContext& c) {
  const Tensor& indices = c.input(1);
  const AxisSizes s = ReadSizes(c.node(), c.output(0).shape());
  const int64_t count = indices.element_count();
  for (int64_t i = 0; i < count; ++i) {
    CheckIndex(c.node(), IndexAt(indices, i), s.size);
  }
  const T* dy = c.in<T>(2).data();
  T* dx = c.out<T>(0).data();
  FillZero(c.output(0));
  // In order, since several indices may add to one row.
  for (int64_t outer = 0; outer < s.outer; ++outer) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = IndexAt(indices, i);
      T* row = dx + (outer * s.size + (index < 0 ? index + s.size : index)) *
                        s.inner;
      const T* add = dy + (outer * count + i) * s.inner;
      for (int64_t j = 0; j < s.inner; ++j) row[j] += add[j];
    }
  }
}

// --- Gradients

void GatherGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  c.Set(0, b.MicrosoftOp("GatherGrad", {b.Shape(c.x()), c.x(1), c.dy()},
                         {{"axis", c.node().Int("axis", 0)}}, b.type(c.x())));
}

}  // namespace

extern constexpr OpDef kGather = {.name = "Gather",
                                  .inputs = {2, 2},
                                  .infer = InferGather,
                                  .reference = ByteKernel<Gather>(),
                                  .gradient = Rule(GatherGradient),
                                  .stops_gradient = {1}};

extern constexpr OpDef kShrunkenGather = {.name = "ShrunkenGather",
                                          .domain = kMicrosoft,
                                          .inputs = {2, 2},
                                          .infer = InferShrunkenGather,
                                          .reference = ByteKernel<Gather>(),
                                          .gradient = Rule(GatherGradient),
                                          .stops_gradient = {1}};

// shape of dX, indices, dY -> dX: rows with equal indices are summed.
extern constexpr OpDef kGatherGrad = {
    .name = "GatherGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferGatherGrad,
    .reference = Instantiate<Floats, 2>(
        []<class T>(const KernelContext& c) { GatherGrad<T>(c); }),
    .value_inputs = {0}};

}  // namespace strop::ops
