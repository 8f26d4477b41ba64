// SPDX-License-Identifier: Apache-2.0
//
// GatherElements, GatherND and their gradients.
#include <cstring>

#include "ops/gradient.h"
#include "ops/index_walk.h"

namespace strop::ops {
namespace {

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

void InferGatherNd(InferContext& c) {
  RequireIndices(c, 1);
  c.SetOutput(0, c.input(0).type,
              GatherNdShape(c.node(), c.input(0).shape, c.input(1).shape));
}

void GatherNd(const KernelContext& c) {
  const NdSizes s = ReadNd(c.node(), c.input(0).shape(), c.input(1).shape());
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
      ForEachElement(c, c.input(0).shape(), c.input(1),
                     [&](int64_t offset, int64_t i) { y[i] = x[offset]; });
    }),
    .gradient = Rule([](GradientContext& c) {
      GraphBuilder& b = c.build();
      c.Set(0, b.MicrosoftOp("GatherElementsGrad",
                             {c.dy(), b.Shape(c.x()), c.x(1)},
                             {{"axis", c.node().Int("axis", 0)}}));
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
      ForEachElement(c, c.output(0).shape(), c.input(2),
                     [&](int64_t offset, int64_t i) { dx[offset] += dy[i]; });
    }),
    .value_inputs = {1}};

extern constexpr OpDef kGatherND = {
    .name = "GatherND",
    .inputs = {2, 2},
    .infer = InferGatherNd,
    .reference = ByteKernel<GatherNd>(),
    .gradient = Rule([](GradientContext& c) {
      GraphBuilder& b = c.build();
      c.Set(0, b.MicrosoftOp("GatherNDGrad", {b.Shape(c.x()), c.x(1), c.dy()},
                             {{"batch_dims", c.node().Int("batch_dims", 0)}},
                             b.type(c.x())));
    }),
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
      ForEachTuple(c, dx_shape, c.input(1), s, [&](int64_t block, int64_t row) {
        for (int64_t j = 0; j < s.block; ++j) {
          dx[block * s.block + j] += dy[row * s.block + j];
        }
      });
    }),
    .value_inputs = {0}};

}  // namespace strop::ops
