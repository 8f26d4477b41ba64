// SPDX-License-Identifier: Apache-2.0
//
// GatherElements, GatherND and their gradients.
#include <cstring>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

// --- GatherElements: y[i, j, k] = x[i, indices[i, j, k], k] for axis 1.

void CheckElements(const OpNode& node, const Shape& data,
                   const Shape& indices) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", 0), data.rank());
  bool fits = data.rank() == indices.rank();
  for (size_t i = 0; fits && i < data.rank(); ++i) {
    fits = i == axis || indices[i] <= data[i];
  }
  if (!fits) {
    Fail(node, "indices {} do not fit into data {}", indices.ToString(),
         data.ToString());
  }
}

// Calls move(offset in data, position in indices) for every index, in order.
template <class F>
void ForEachElement(const KernelContext& c, const Shape& data,
                    const Tensor& indices, F&& move) {
  const size_t rank = data.rank();
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", 0), rank);
  const Dims strides = Strides(data);
  const Shape& shape = indices.shape();
  Dims at = {};
  const int64_t count = indices.element_count();
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset =
        CheckIndex(c.node(), IndexAt(indices, i), data[axis]) * strides[axis];
    for (size_t a = 0; a < rank; ++a) {
      if (a != axis) offset += at[a] * strides[a];
    }
    move(offset, i);
    for (size_t a = rank; a-- > 0;) {
      if (++at[a] < shape[a]) break;
      at[a] = 0;
    }
  }
}

void InferGatherElements(InferContext& c) {
  RequireIndices(c, 1);
  CheckElements(c.node(), c.input(0).shape, c.input(1).shape);
  c.SetOutput(0, c.input(0).type, c.input(1).shape);
}

void InferGatherElementsGrad(InferContext& c) {
  const Shape dx(c.IntValues(1));
  RequireIndices(c, 2);
  RequireShape(c, 0, c.input(2).shape);
  CheckElements(c.node(), dx, c.input(2).shape);
  c.SetOutput(0, c.input(0).type, dx);
}

// --- GatherND: the last axis of the indices is a position in the data.

struct NdSizes {
  int64_t batches = 1;    // product of the batch_dims leading axes
  int64_t rows = 1;       // index tuples in one batch
  size_t depth = 0;       // numbers in a tuple
  size_t first_axis = 0;  // batch_dims
  int64_t block = 1;      // elements that one tuple names
};

NdSizes ReadNd(const OpNode& node, const Shape& data, const Shape& indices) {
  const int64_t batch_dims = node.Int("batch_dims", 0);
  const size_t rank = std::min(data.rank(), indices.rank());
  if (batch_dims < 0 || rank == 0 ||
      batch_dims >= static_cast<int64_t>(rank)) {
    Fail(node, "batch_dims {} does not fit data {} and indices {}",
         batch_dims, data.ToString(), indices.ToString());
  }
  NdSizes s;
  s.first_axis = static_cast<size_t>(batch_dims);
  const int64_t depth = indices[indices.rank() - 1];
  if (depth < 1 || depth > static_cast<int64_t>(data.rank() - s.first_axis)) {
    Fail(node, "index tuples of length {} do not fit data {}", depth,
         data.ToString());
  }
  s.depth = static_cast<size_t>(depth);
  for (size_t i = 0; i < s.first_axis; ++i) {
    if (data[i] != indices[i]) {
      Fail(node, "data {} and indices {} differ in batch axis {}",
           data.ToString(), indices.ToString(), i);
    }
  }
  s.batches = data.element_count(0, s.first_axis);
  s.rows = indices.element_count(s.first_axis, indices.rank() - 1);
  s.block = data.element_count(s.first_axis + s.depth, data.rank());
  return s;
}

Shape GatherNdShape(const OpNode& node, const Shape& data,
                    const Shape& indices) {
  const NdSizes s = ReadNd(node, data, indices);
  std::vector<int64_t> dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), data.begin() + s.first_axis + s.depth, data.end());
  return Shape(dims);
}

// Calls move(block in data, row) for every index tuple, in order.
template <class F>
void ForEachTuple(const KernelContext& c, const Shape& data,
                  const Tensor& indices, const NdSizes& s, F&& move) {
  const int64_t blocks_in_batch =
      data.element_count(s.first_axis, s.first_axis + s.depth);
  for (int64_t row = 0; row < s.batches * s.rows; ++row) {
    int64_t block = 0;
    for (size_t i = 0; i < s.depth; ++i) {
      const int64_t size = data[s.first_axis + i];
      const int64_t index =
          IndexAt(indices, static_cast<size_t>(row) * s.depth + i);
      block = block * size + CheckIndex(c.node(), index, size);
    }
    move(row / s.rows * blocks_in_batch + block, row);
  }
}

void InferGatherNd(InferContext& c) {
  RequireIndices(c, 1);
  c.SetOutput(0, c.input(0).type,
              GatherNdShape(c.node(), c.input(0).shape, c.input(1).shape));
}

void GatherNd(const KernelContext& c) {
  const NdSizes s =
      ReadNd(c.node(), c.input(0).shape(), c.input(1).shape());
  const size_t bytes =
      static_cast<size_t>(s.block) * DataTypeSize(c.input(0).type());
  const auto* x = static_cast<const std::byte*>(c.input(0).data());
  auto* y = static_cast<std::byte*>(c.output(0).data());
  ForEachTuple(c, c.input(0).shape(), c.input(1), s,
               [&](int64_t block, int64_t row) {
                 if (bytes == 0) return;
                 std::memcpy(y + row * bytes, x + block * bytes, bytes);
               });
}

void InferGatherNdGrad(InferContext& c) {
  const Shape dx(c.IntValues(0));
  RequireIndices(c, 1);
  RequireShape(c, 2, GatherNdShape(c.node(), dx, c.input(1).shape));
  c.SetOutput(0, c.input(2).type, dx);
}

}  // namespace

extern constexpr OpDef kGatherElements = {
    .name = "GatherElements",
    .inputs = {2, 2},
    .infer = InferGatherElements,
    .reference = Instantiate<AllTypes>([]<class T>(const KernelContext& c) {
      const T* x = c.in<T>(0).data();
      T* y = c.out<T>(0).data();
      ForEachElement(
          c, c.input(0).shape(), c.input(1),
          [&](int64_t offset, int64_t i) { y[i] = x[offset]; });
    }),
    .stops_gradient = {1}};

// dY, shape of dX, indices -> dX
extern constexpr OpDef kGatherElementsGrad = {
    .name = "GatherElementsGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferGatherElementsGrad,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const T* dy = c.in<T>(0).data();
      T* dx = c.out<T>(0).data();
      FillZero(c.output(0));
      ForEachElement(
          c, c.output(0).shape(), c.input(2),
          [&](int64_t offset, int64_t i) { dx[offset] += dy[i]; });
    }),
    .value_inputs = {1}};

extern constexpr OpDef kGatherND = {.name = "GatherND",
                                    .inputs = {2, 2},
                                    .infer = InferGatherNd,
                                    .reference = ByteKernel<GatherNd>(),
                                    .stops_gradient = {1}};

// shape of dX, indices, dY -> dX
extern constexpr OpDef kGatherNDGrad = {
    .name = "GatherNDGrad",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferGatherNdGrad,
    .reference = Instantiate<Floats, 2>([]<class T>(const KernelContext& c) {
      const Shape& dx_shape = c.output(0).shape();
      const NdSizes s = ReadNd(c.node(), dx_shape, c.input(1).shape());
      const T* dy = c.in<T>(2).data();
      T* dx = c.out<T>(0).data();
      FillZero(c.output(0));
      ForEachTuple(c, dx_shape, c.input(1), s,
                   [&](int64_t block, int64_t row) {
                     for (int64_t j = 0; j < s.block; ++j) {
                       dx[block * s.block + j] += dy[row * s.block + j];
                     }
                   });
    }),
    .value_inputs = {0}};

}  // namespace strop::ops
