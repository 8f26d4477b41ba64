// SPDX-License-Identifier: Apache-2.0
#include "ops/axis.h"

namespace strop::ops {
namespace {

// indices, dY, buffer, overwrite
void InferAccumulate(InferContext& c) {
  RequireIndices(c, 0);
  RequireSameType(c, 1, 2);
  const Shape& dx = c.input(2).shape;
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", 0), dx.rank());
  std::vector<int64_t> dims(dx.begin(), dx.begin() + axis);
  const Shape& indices = c.input(0).shape;
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), dx.begin() + axis + 1, dx.end());
  RequireShape(c, 1, Shape(dims));
  RequireType(c, 3, DataType::kBool);
  RequireOneElement(c, 3);
  c.SetOutput(0, c.input(2).type, dx);
}

template <class T>
void Accumulate(const KernelContext& c) {
  const Tensor& indices = c.input(0);
  const Tensor& buffer = c.input(2);
  const AxisSizes s = ReadAxis(c.node(), buffer.shape(), 0);
  const int64_t count = indices.element_count();
  for (int64_t i = 0; i < count; ++i) {
    CheckIndex(c.node(), IndexAt(indices, i), s.size);
  }
  const T* dy = c.in<T>(1).data();
  T* sums = buffer.values<T>().data();
  if (c.scalar<bool>(3)) FillZero(buffer);
  // In order, since several indices may add to one row.
  for (int64_t outer = 0; outer < s.outer; ++outer) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row =
          CheckIndex(c.node(), IndexAt(indices, i), s.size) + outer * s.size;
      for (int64_t j = 0; j < s.inner; ++j) {
        sums[row * s.inner + j] += dy[(outer * count + i) * s.inner + j];
      }
    }
  }
}

}  // namespace

// buffer (+)= GatherGrad: the rows of dY are added where the indices say.
extern constexpr OpDef kInternalGatherGradAccumulate = {
    .name = "GatherGradAccumulate",
    .domain = kInternal,
    .inputs = {4, 4},
    .outputs = {0, 1},
    .infer = InferAccumulate,
    .reference = Instantiate<Floats, 1>(
        []<class T>(const KernelContext& c) { Accumulate<T>(c); }),
    .aliases = {{0, 2}},
    .mutates = {2}};

}  // namespace strop::ops
