// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/pool.h"

#include <cmath>

#include "base/round.h"
#include "ops/gradient.h"
#include "ops/reduce.h"

namespace strop::ops {

int64_t AverageCount(const Window& w, int64_t index, bool include_pad) {
  int64_t count = 1;
  for (size_t axis = w.rank; axis-- > 0;) {
    const int64_t start =
        index % w.output[axis] * w.stride[axis] - w.pad_begin[axis];
    index /= w.output[axis];
    const int64_t low = include_pad ? -w.pad_begin[axis] : 0;
    const int64_t high = w.input[axis] + (include_pad ? w.pad_end[axis] : 0);
    const int64_t dilation = w.dilation[axis];
    // Taps k with low <= start + k dilation < high.
    const int64_t first = start >= low ? 0 : CeilDiv(low - start, dilation);
    const int64_t last = start >= high ? 0 : CeilDiv(high - start, dilation);
    count *= std::max<int64_t>(0, std::min(last, w.kernel[axis]) - first);
  }
  return count;
}

namespace {

void InferPool(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const Shape y =
      WindowOutputShape(PoolWindow(c.node(), x.shape), x.shape[0], x.shape[1]);
  c.SetOutput(0, x.type, y);
  c.SetOutput(1, DataType::kInt64, y);
}

// The position of a spatial offset in a plane when the first spatial axis
// varies fastest (storage_order 1).
int64_t ColumnMajor(const Window& w, int64_t offset) {
  int64_t at[Window::kMaxAxes];
  for (size_t axis = w.rank; axis-- > 0;) {
    at[axis] = offset % w.input[axis];
    offset /= w.input[axis];
  }
  int64_t result = 0;
  for (size_t axis = w.rank; axis-- > 0;) {
    result = result * w.input[axis] + at[axis];
  }
  return result;
}

// Indices (output 1) count in the whole input; -1 where a window holds no
// cell at all, which takes dilation and padding together.
template <class T>
void MaxPool(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Window w = PoolWindow(c.node(), x_shape);
  const int64_t in = w.input_size(), out = w.output_size();
  const int64_t stride = w.stride[w.rank - 1];
  const bool column_major = c.node().Int("storage_order", 0) != 0;
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  int64_t* indices = c.has_output(1) ? c.out<int64_t>(1).data() : nullptr;
  constexpr T kLowest = std::numeric_limits<T>::has_infinity
                            ? -std::numeric_limits<T>::infinity()
                            : std::numeric_limits<T>::lowest();
  const auto pool_plane = [&](int64_t plane) {
    const T* from = x + plane * in;
    T* to = y + plane * out;
    int64_t* index = indices ? indices + plane * out : nullptr;
    std::fill_n(to, out, kLowest);
    if (index) std::fill_n(index, out, int64_t{-1});
    ForEachTapRow(w, [&](int64_t, int64_t xo, int64_t yo, int64_t count) {
      for (int64_t j = 0; j < count; ++j) {
        const T value = from[xo + j * stride];
        const bool first = index && index[yo + j] < 0;
        // NaN wins, as it must be seen.
        if (!first && !(value > to[yo + j]) && value == value) continue;
        to[yo + j] = value;
        if (index) index[yo + j] = plane * in + xo + j * stride;
      }
    });
    if (index && column_major) {
      for (int64_t i = 0; i < out; ++i) {
        if (index[i] < 0) continue;
        index[i] = plane * in + ColumnMajor(w, index[i] - plane * in);
      }
    }
  };
  c.ParallelFor(x_shape[0] * x_shape[1],
                static_cast<double>(out * w.kernel_size()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) pool_plane(i);
                });
}

template <class T>
void AveragePool(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Window w = PoolWindow(c.node(), x_shape);
  const int64_t in = w.input_size(), out = w.output_size();
  const int64_t stride = w.stride[w.rank - 1];
  const bool include_pad = c.node().Int("count_include_pad", 0) != 0;
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const auto pool_plane = [&](int64_t plane) {
    const T* from = x + plane * in;
    T* to = y + plane * out;
    std::fill_n(to, out, T{0});
    ForEachTapRow(w, [&](int64_t, int64_t xo, int64_t yo, int64_t count) {
      for (int64_t j = 0; j < count; ++j) {
        to[yo + j] += from[xo + j * stride];
      }
    });
    for (int64_t i = 0; i < out; ++i) {
      const int64_t count = AverageCount(w, i, include_pad);
      if (count > 0) to[i] /= static_cast<T>(count);
    }
  };
  c.ParallelFor(x_shape[0] * x_shape[1],
                static_cast<double>(out * w.kernel_size()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) pool_plane(i);
                });
}

void InferGlobalPool(InferContext& c) {
  const TensorInfo& x = c.input(0);
  if (x.shape.rank() < 2) {
    Fail(c.node(), "wants batch and channels, not the shape {}",
         x.shape.ToString());
  }
  std::vector<int64_t> dims(x.shape.rank(), 1);
  dims[0] = x.shape[0];
  dims[1] = x.shape[1];
  c.SetOutput(0, x.type, Shape(dims));
}

AxisSet SpatialAxes(const Shape& x) {
  AxisSet axes;
  for (size_t i = 2; i < x.rank(); ++i) axes.set(i);
  return axes;
}

template <class T>
struct Averaging {
  void Add(T x) { sum += static_cast<double>(x); }
  T Result(int64_t count) const {
    return static_cast<T>(sum / static_cast<double>(count));
  }
  double sum = 0;
};

template <class T>
struct Largest {
  void Add(T x) {
    if (x > best || x != x) best = x;
  }
  T Result(int64_t) const { return best; }
  T best = -std::numeric_limits<T>::infinity();
};

template <template <class> class Accumulator>
constexpr ReferenceKernel GlobalPool() {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const Shape& x = c.input(0).shape();
    Reduce<Accumulator, T>(c, SpatialAxes(x), c.in<T>(0).data(),
                           c.out<T>(0).data(), x);
  });
}

void InferPoolGrad(InferContext& c) {
  Fail(c.node(), ErrorCode::kNotImplemented,
       "does not tell the shape of its result; the graph must hold the "
       "forward node, from which it is taken");
}

// --- Gradients

// Where each maximum came from. Places that count by columns are found anew.
Var RowMajorPlaces(GradientContext& c) {
  if (c.node().Int("storage_order", 0) == 0)
    return c.AddedOutput(1, "indices", DataType::kInt64);
  GraphBuilder& b = c.build();
  Attributes attributes = c.attributes();
  std::erase_if(attributes, [](const auto& entry) {
    return entry.first == "storage_order";
  });
  const DataType types[] = {b.type(c.x()), DataType::kInt64};
  const Var inputs[] = {c.x()};
  return b.Ops("MaxPool", inputs, types, attributes)[1];
}

// ONNX Runtime's op must know the shape of its result beforehand, and so must
// the node be sized. Indices count through the whole input: else each window
// adds to the place that it came from.
void MaxPoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var places = RowMajorPlaces(c);
  if (b.static_dims(c.x()) && c.node().Int("storage_order", 0) == 0)
    return c.Set(0, b.Op("MaxPoolGrad", {c.dy(), places}, c.attributes()));
  const Var count = b.Op("Size", {c.x()}, {}, kOnnx, DataType::kInt64);
  const Var all = b.Ints({-1});
  const Var dx = b.MicrosoftOp("GatherGrad",
                               {b.Reshape(count, b.Ints({1})),
                                b.Reshape(places, all), b.Reshape(c.dy(), all)},
                               {{"axis", int64_t{0}}}, b.type(c.x()));
  c.Set(0, b.Reshape(dx, b.Shape(c.x())));
}

// ONNX Runtime's op knows neither dilations nor ceil_mode, and must know the
// shape of its result beforehand.
void AveragePoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto dilations = c.node().Ints("dilations");
  const bool plain =
      b.static_dims(c.x()) && c.node().Int("ceil_mode", 0) == 0 &&
      std::ranges::all_of(dilations, [](int64_t d) { return d == 1; }) &&
      c.node().String("auto_pad", "NOTSET") == "NOTSET";
  if (plain) return c.Set(0, b.Op("AveragePoolGrad", {c.dy()}, c.attributes()));
  c.Set(0, b.Op("AveragePoolGrad", {c.dy(), c.x()}, c.attributes(), kStrop));
}

void GlobalAveragePoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto size = [&](Var x) {
    return b.Cast(b.Op("Size", {x}, {}, kOnnx, DataType::kInt64),
                  b.type(c.x()));
  };
  const Var part = c.dy() / (size(c.x()) / size(c.y()));
  c.Set(0, b.Op("Expand", {part, b.Shape(c.x())}));
}

// Elements that are equal to the largest share the gradient evenly.
void GlobalMaxPoolGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto rank = b.rank(c.x());
  if (!rank) c.Fail("the rank of its input must be known");
  std::vector<int64_t> axes;
  for (size_t i = 2; i < *rank; ++i) axes.push_back(static_cast<int64_t>(i));
  const Var largest = b.Cast(b.Compare("Equal", c.x(), c.y()), b.type(c.x()));
  const Var count = axes.empty() ? largest : b.ReduceSum(largest, axes, true);
  c.Set(0, largest * (c.dy() / count));
}

}  // namespace

extern constexpr OpDef kMaxPool = {
    .name = "MaxPool",
    .outputs = {1, 2},
    .infer = InferPool,
    .reference = Instantiate<TypeList<float, double, int8_t, uint8_t>>(
        []<class T>(const KernelContext& c) { MaxPool<T>(c); }),
    .gradient = Rule(MaxPoolGradient)};

extern constexpr OpDef kAveragePool = {
    .name = "AveragePool",
    .infer = InferPool,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { AveragePool<T>(c); }),
    .gradient = Rule(AveragePoolGradient)};

extern constexpr OpDef kGlobalAveragePool = {
    .name = "GlobalAveragePool",
    .infer = InferGlobalPool,
    .reference = GlobalPool<Averaging>(),
    .gradient = Rule(GlobalAveragePoolGradient)};

extern constexpr OpDef kGlobalMaxPool = {
    .name = "GlobalMaxPool",
    .infer = InferGlobalPool,
    .reference = GlobalPool<Largest>(),
    .gradient = Rule(GlobalMaxPoolGradient)};

// The gradients of ONNX Runtime have no input that tells dX's shape. They
// run as their twins in strop.internal (fused/pool_grad.cc), which have.
extern constexpr OpDef kMaxPoolGrad = {
    .name = "MaxPoolGrad", .inputs = {2, 2}, .infer = InferPoolGrad};

extern constexpr OpDef kAveragePoolGrad = {
    .name = "AveragePoolGrad", .inputs = {1, 1}, .infer = InferPoolGrad};

}  // namespace strop::ops
