// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/window.h"

namespace strop::ops {
namespace {

// X, indices, output shape (optional)
void InferMaxUnpool(InferContext& c) {
  RequireType(c, 1, DataType::kInt64);
  RequireShape(c, 1, c.input(0).shape);
  const Shape& x = c.input(0).shape;
  const Shape pooled = WindowInputShape(UnpoolWindow(c.node(), x), x[0], x[1]);
  if (!c.has_input(2)) return c.SetOutput(0, c.input(0).type, pooled);
  const Shape wanted(c.IntValues(2));
  bool fits = wanted.rank() == pooled.rank();
  for (size_t i = 0; fits && i < wanted.rank(); ++i) {
    fits = wanted[i] >= pooled[i];
  }
  if (!fits) {
    Fail(c.node(), "the wanted shape {} does not hold the unpooled {}",
         wanted.ToString(), pooled.ToString());
  }
  c.SetOutput(0, c.input(0).type, wanted);
}

// Offset in `to` of the element at offset `index` of `from`.
int64_t Relocate(int64_t index, const Shape& from, const Dims& to) {
  int64_t offset = 0;
  for (size_t axis = from.rank(); axis-- > 0;) {
    offset += index % from[axis] * to[axis];
    index /= from[axis];
  }
  return offset;
}

// Indices count in the tensor that the attributes describe; where a larger
// one is wanted, that one stands in its first corner, as ONNX's own test has
// it.
template <class T>
void MaxUnpool(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Shape pooled =
      WindowInputShape(UnpoolWindow(c.node(), x_shape), x_shape[0], x_shape[1]);
  const int64_t size = pooled.element_count();
  const Dims strides = Strides(c.output(0).shape());
  const auto x = c.in<T>(0);
  const auto indices = c.in<int64_t>(1);
  const auto y = c.out<T>(0);
  std::fill(y.begin(), y.end(), T{0});
  for (size_t i = 0; i < x.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size) {
      Fail(c.node(), "index {} is out of range for {} elements", indices[i],
           size);
    }
    y[static_cast<size_t>(Relocate(indices[i], pooled, strides))] = x[i];
  }
}

// --- Gradients

// The sizes of the tensor in which the indices count, behind batch and
// channels: (input - 1) stride + kernel - pads.
Var PooledSizes(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto kernel = c.node().Ints("kernel_shape");
  const auto strides = c.node().Ints("strides"), pads = c.node().Ints("pads");
  const size_t rank = kernel.size();
  std::vector<int64_t> steps(rank, 1), rest(kernel.begin(), kernel.end());
  for (size_t i = 0; i < rank; ++i) {
    if (!strides.empty()) steps[i] = strides[i];
    if (!pads.empty()) rest[i] -= pads[i] + pads[rank + i];
  }
  const Var sizes = b.Op("Slice", {b.Shape(c.x()), b.Ints({2}),
                                   b.Ints({2 + static_cast<int64_t>(rank)})});
  return (sizes - b.Ints(std::vector<int64_t>(rank, 1))) * b.Ints(steps) +
         b.Ints(rest);
}

// Takes dy where x was put. Where a larger output was wanted, the indices
// count in its first corner only.
void MaxUnpoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  Var dy = c.dy();
  if (c.has_input(2)) {
    const size_t rank = c.node().Ints("kernel_shape").size();
    std::vector<int64_t> axes;
    for (size_t i = 0; i < rank; ++i)
      axes.push_back(static_cast<int64_t>(i) + 2);
    const Var starts = b.Ints(std::vector<int64_t>(rank, 0));
    dy = b.Op("Slice", {dy, starts, PooledSizes(c), b.Ints(axes)});
  }
  const Var flat = b.Reshape(dy, b.Ints({-1}));
  c.Set(0, b.Op("Gather", {flat, c.x(1)}, {{"axis", int64_t{0}}}));
}

}  // namespace

// Y = 0, then Y[indices[i]] = X[i]
extern constexpr OpDef kMaxUnpool = {
    .name = "MaxUnpool",
    .inputs = {2, 3},
    .infer = InferMaxUnpool,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MaxUnpool<T>(c); }),
    .value_inputs = {2},
    .gradient = Rule(MaxUnpoolGradient),
    .stops_gradient = {1, 2}};

}  // namespace strop::ops
