// SPDX-License-Identifier: Apache-2.0
//
// The pooling gradients with one more input: X, the forward input, of which
// only the shape is read.
#include "ops/nn/pool.h"

namespace strop::ops {
namespace {

// dY, Indices, X
void InferMaxPoolGrad(InferContext& c) {
  if (c.node().Int("storage_order", 0) != 0) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "indices in column-major order are not supported");
  }
  RequireType(c, 1, DataType::kInt64);
  const Shape& x = c.input(2).shape;
  const Window window = PoolWindow(c.node(), x);
  RequireShape(c, 0, WindowOutputShape(window, x[0], x[1]));
  RequireShape(c, 1, c.input(0).shape);
  c.SetOutput(0, c.input(0).type, x);
}

// dX = 0, then dX[Indices[i]] += dY[i]
template <class T>
void MaxPoolGrad(const KernelContext& c) {
  const auto dy = c.in<T>(0);
  const auto indices = c.in<int64_t>(1);
  const auto dx = c.out<T>(0);
  const int64_t size = static_cast<int64_t>(dx.size());
  std::fill(dx.begin(), dx.end(), T{0});
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    if (index == -1) continue;  // a window without a cell
    if (index < 0 || index >= size) {
      Fail(c.node(), "index {} is out of range for {} elements", index, size);
    }
    dx[index] += dy[i];
  }
}

// dY, X
void InferAveragePoolGrad(InferContext& c) {
  const Shape& x = c.input(1).shape;
  const Window window = PoolWindow(c.node(), x);
  RequireShape(c, 0, WindowOutputShape(window, x[0], x[1]));
  c.SetOutput(0, c.input(0).type, x);
}

// Every output spreads dY over the cells that it averaged.
template <class T>
void AveragePoolGrad(const KernelContext& c) {
  const Shape& x_shape = c.input(1).shape();
  const Window w = PoolWindow(c.node(), x_shape);
  const int64_t in = w.input_size(), out = w.output_size();
  const int64_t stride = w.stride[w.rank - 1];
  const bool include_pad = c.node().Int("count_include_pad", 0) != 0;
  const T* dy = c.in<T>(0).data();
  T* dx = c.out<T>(0).data();
  const auto spread_plane = [&](int64_t plane) {
    const T* from = dy + plane * out;
    T* to = dx + plane * in;
    std::fill_n(to, in, T{0});
    ForEachTapRow(w, [&](int64_t, int64_t xo, int64_t yo, int64_t count) {
      for (int64_t j = 0; j < count; ++j) {
        to[xo + j * stride] +=
            from[yo + j] / static_cast<T>(AverageCount(w, yo + j, include_pad));
      }
    });
  };
  c.ParallelFor(x_shape[0] * x_shape[1],
                10 * static_cast<double>(out * w.kernel_size()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) spread_plane(i);
                });
}

}  // namespace

extern constexpr OpDef kInternalMaxPoolGrad = {
    .name = "MaxPoolGrad",
    .domain = kInternal,
    .inputs = {3, 3},
    .infer = InferMaxPoolGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MaxPoolGrad<T>(c); }),
    .shape_inputs = {2}};

namespace {

constexpr OpDef AveragePoolGradIn(std::string_view domain) {
  return {.name = "AveragePoolGrad",
          .domain = domain,
          .inputs = {2, 2},
          .infer = InferAveragePoolGrad,
          .reference = Instantiate<Floats>(
              []<class T>(const KernelContext& c) { AveragePoolGrad<T>(c); }),
          .shape_inputs = {1}};
}

}  // namespace

extern constexpr OpDef kInternalAveragePoolGrad = AveragePoolGradIn(kInternal);

// In files: dY, the pool's input (of which the shape is read) -> dX, for
// pools that ONNX Runtime's AveragePoolGrad cannot describe.
extern constexpr OpDef kStropAveragePoolGrad = AveragePoolGradIn(kStrop);

}  // namespace strop::ops
