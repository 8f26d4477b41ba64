// SPDX-License-Identifier: Apache-2.0
//
// LayerNormalization and its RMS form, with gradients. The tensor is seen as
// rows x columns, cut at `axis`; scale and bias have one number per column.
#include <cmath>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

struct LayerNormSizes {
  int64_t rows, columns;
  size_t axis;
};

LayerNormSizes ReadSizes(const OpNode& node, const Shape& x) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", -1), x.rank());
  return {x.element_count(0, axis), x.element_count(axis, x.rank()), axis};
}

// One number per row: (d0, ..., d(axis - 1), 1, ..., 1).
Shape RowShape(const Shape& x, size_t axis) {
  std::vector<int64_t> dims(x.begin(), x.end());
  std::fill(dims.begin() + axis, dims.end(), 1);
  return Shape(dims);
}

// `shape` has as many elements as a row, whatever its own rank.
void RequireColumns(const InferContext& c, size_t i, size_t x,
                    const LayerNormSizes& s) {
  RequireSameType(c, x, i);
  const Shape& x_shape = c.input(x).shape;
  RequireBroadcastTo(c.node(), fmt::format("input {}", i), c.input(i).shape,
                     x_shape);
  if (c.input(i).shape.element_count() != s.columns) {
    Fail(c.node(), "input {} must have one number per column of {}, not {}", i,
         x_shape.ToString(), c.input(i).shape.ToString());
  }
}

// X, scale, bias (optional) -> Y, mean, 1 / sqrt(variance + epsilon)
void InferLayerNorm(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const LayerNormSizes s = ReadSizes(c.node(), x.shape);
  RequireColumns(c, 1, 0, s);
  if (c.has_input(2)) RequireColumns(c, 2, 0, s);
  const Shape rows = RowShape(x.shape, s.axis);
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, x.type, rows);
  c.SetOutput(2, x.type, rows);
}

// X, scale -> Y, 1 / sqrt(mean of squares + epsilon)
void InferSimplified(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const LayerNormSizes s = ReadSizes(c.node(), x.shape);
  RequireColumns(c, 1, 0, s);
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, x.type, RowShape(x.shape, s.axis));
}

// With `centered` the mean is taken out first.
template <class T, bool centered>
void LayerNorm(const KernelContext& c) {
  const LayerNormSizes s = ReadSizes(c.node(), c.input(0).shape());
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const T* scale = c.in<T>(1).data();
  const T* bias = centered && c.has_input(2) ? c.in<T>(2).data() : nullptr;
  const T* xs = c.in<T>(0).data();
  T* ys = c.out<T>(0).data();
  const size_t inverse_output = centered ? 2 : 1;
  const double columns = static_cast<double>(s.columns);
  const auto run_row = [&](int64_t row) {
    const T* x = xs + row * s.columns;
    T* y = ys + row * s.columns;
    double mean = 0, squares = 0;
    if constexpr (centered) {
      for (int64_t i = 0; i < s.columns; ++i) {
        mean += static_cast<double>(x[i]);
      }
      mean /= columns;
    }
    for (int64_t i = 0; i < s.columns; ++i) {
      const double d = static_cast<double>(x[i]) - mean;
      squares += d * d;
    }
    const double inverse = 1 / std::sqrt(squares / columns + epsilon);
    const T center = static_cast<T>(mean), factor = static_cast<T>(inverse);
    for (int64_t i = 0; i < s.columns; ++i) {
      y[i] = (x[i] - center) * factor * scale[i] + (bias ? bias[i] : T{0});
    }
    if (centered && c.has_output(1)) c.out<T>(1)[row] = center;
    if (c.has_output(inverse_output)) c.out<T>(inverse_output)[row] = factor;
  };
  c.ParallelFor(s.rows, 3 * columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_row(i);
  });
}

// dY, X, scale, mean, inverse -> dX, dscale, dbias
void InferLayerNormGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  const TensorInfo& x = c.input(1);
  const LayerNormSizes s = ReadSizes(c.node(), x.shape);
  RequireColumns(c, 2, 1, s);
  for (size_t i = 3; i < c.input_count(); ++i) {
    RequireSameType(c, 1, i);
    if (c.input(i).shape.element_count() != s.rows) {
      Fail(c.node(), "input {} must have one number per row, not the shape {}",
           i, c.input(i).shape.ToString());
    }
  }
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, x.type, c.input(2).shape);
  c.SetOutput(2, x.type, c.input(2).shape);
}

// With x^ = (x - mean) inverse and b = dy scale inverse, over a row:
//   dx = b - mean(b) - x^ mean(b x^), without mean(b) unless centered;
// over all rows: dscale = sum(dy x^), dbias = sum(dy).
template <class T, bool centered>
void LayerNormGrad(const KernelContext& c) {
  const LayerNormSizes s = ReadSizes(c.node(), c.input(1).shape());
  const T* dys = c.in<T>(0).data();
  const T* xs = c.in<T>(1).data();
  const T* scale = c.in<T>(2).data();
  const T* means = centered ? c.in<T>(3).data() : nullptr;
  const T* inverses = c.in<T>(centered ? 4 : 3).data();
  const double columns = static_cast<double>(s.columns);
  const auto run_row = [&](int64_t row) {
    const T* dy = dys + row * s.columns;
    const T* x = xs + row * s.columns;
    T* dx = c.out<T>(0).data() + row * s.columns;
    const T mean = centered ? means[row] : T{0};
    const T inverse = inverses[row];
    double sum = 0, product = 0;
    for (int64_t i = 0; i < s.columns; ++i) {
      const T b = dy[i] * scale[i] * inverse;
      sum += static_cast<double>(b);
      product += static_cast<double>(b * (x[i] - mean) * inverse);
    }
    const T shift = centered ? static_cast<T>(sum / columns) : T{0};
    const T slope = static_cast<T>(product / columns);
    for (int64_t i = 0; i < s.columns; ++i) {
      dx[i] =
          dy[i] * scale[i] * inverse - shift - (x[i] - mean) * inverse * slope;
    }
  };
  if (c.has_output(0)) {
    c.ParallelFor(s.rows, 4 * columns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_row(i);
    });
  }
  // The sums over rows, for a few columns at a time.
  constexpr int64_t kTogether = 32;
  const int64_t groups = (s.columns + kTogether - 1) / kTogether;
  const auto sum_columns = [&](int64_t group) {
    const int64_t first = group * kTogether;
    const int64_t count = std::min(kTogether, s.columns - first);
    double dscale[kTogether] = {}, dbias[kTogether] = {};
    for (int64_t row = 0; row < s.rows; ++row) {
      const T* dy = dys + row * s.columns + first;
      const T* x = xs + row * s.columns + first;
      const T mean = centered ? means[row] : T{0};
      for (int64_t j = 0; j < count; ++j) {
        dscale[j] += static_cast<double>(dy[j] * (x[j] - mean) * inverses[row]);
        dbias[j] += static_cast<double>(dy[j]);
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      if (c.has_output(1)) c.out<T>(1)[first + j] = static_cast<T>(dscale[j]);
      if (centered && c.has_output(2)) {
        c.out<T>(2)[first + j] = static_cast<T>(dbias[j]);
      }
    }
  };
  c.ParallelFor(groups, 3.0 * static_cast<double>(s.rows) * kTogether,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) sum_columns(i);
                });
}

}  // namespace

extern constexpr OpDef kLayerNormalization = {
    .name = "LayerNormalization",
    .inputs = {2, 3},
    .outputs = {1, 3},
    .infer = InferLayerNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNorm<T, true>(c); })};

extern constexpr OpDef kLayerNormalizationGrad = {
    .name = "LayerNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {5, 5},
    .outputs = {0, 3},
    .infer = InferLayerNormGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNormGrad<T, true>(c); })};

extern constexpr OpDef kSimplifiedLayerNormalization = {
    .name = "SimplifiedLayerNormalization",
    .inputs = {2, 2},
    .outputs = {1, 2},
    .infer = InferSimplified,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNorm<T, false>(c); })};

extern constexpr OpDef kSimplifiedLayerNormalizationGrad = {
    .name = "SimplifiedLayerNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {4, 4},
    .outputs = {0, 2},
    .infer = InferLayerNormGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNormGrad<T, false>(c); })};

}  // namespace strop::ops
