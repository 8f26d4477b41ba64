// SPDX-License-Identifier: Apache-2.0
//
// The gradients of layer normalization. They differ in how they get at x^,
// the normalized row: from X and the moments, or from Y.
#include "ops/nn/layer_norm.h"

namespace strop::ops {
namespace {

// dY, X (or Y), scale, more. dY and the gradient of the scale have the scale's
// type.
void InferGrad(InferContext& c, const LayerNormSizes& s) {
  RequireFloat(c, 1);
  RequireSameType(c, 0, 2);
  RequireShape(c, 0, c.input(1).shape);
  RequireColumns(c, 2, 1, s);
  c.SetOutput(0, c.input(1).type, c.input(1).shape);
  c.SetOutput(1, c.input(2).type, c.input(2).shape);
  c.SetOutput(2, c.input(2).type, c.input(2).shape);
}

void RequireRows(const InferContext& c, size_t i, const LayerNormSizes& s) {
  RequireFloat(c, i);
  if (c.input(i).shape.element_count() != s.rows) {
    Fail(c.node(), "input {} must have one number per row, not the shape {}", i,
         c.input(i).shape.ToString());
  }
}

// dY, X, scale, (mean,) inverse
void InferLayerNormGrad(InferContext& c) {
  const LayerNormSizes s = ReadLayerNormSizes(c.node(), c.input(1).shape);
  InferGrad(c, s);
  for (size_t i = 3; i < c.input_count(); ++i) RequireRows(c, i, s);
}

// dY, Y, scale, bias, inverse
void InferInvertibleGrad(InferContext& c) {
  const LayerNormSizes s = ReadLayerNormSizes(c.node(), c.input(1).shape);
  InferGrad(c, s);
  RequireColumns(c, 3, 1, s);
  RequireRows(c, 4, s);
}

enum class Form { kCentered, kSimplified, kInvertible };

// With x^ the normalized row and b = dy scale inverse, over a row:
//   dx = b - mean(b) - x^ mean(b x^), without mean(b) in the simplified form;
// over all rows: dscale = sum(dy x^), dbias = sum(dy).
template <class T, Form form>
class LayerNormGrad {
 public:
  explicit LayerNormGrad(const KernelContext& c)
      : c_(c),
        s_(ReadLayerNormSizes(c.node(), c.input(1).shape())),
        dy_(c.in<T>(0).data()),
        x_(c.in<T>(1).data()),
        scale_(c.in<T>(2).data()),
        third_(c.in<T>(3).data()),
        inverse_(c.in<T>(form == Form::kSimplified ? 3 : 4).data()) {}

  void Run() {
    if (c_.has_output(0)) {
      c_.ParallelFor(s_.rows, 4.0 * static_cast<double>(s_.columns),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) RunRow(i);
                     });
    }
    c_.ParallelFor(CeilDiv(s_.columns, kTogether),
                   3.0 * static_cast<double>(s_.rows) * kTogether,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) SumColumns(i);
                   });
  }

 private:
  static constexpr int64_t kTogether = 32;
  static constexpr bool kHasMean = form != Form::kSimplified;

  T Normalized(int64_t row, int64_t i) const {
    const T x = x_[row * s_.columns + i];
    if constexpr (form == Form::kCentered) {
      return (x - third_[row]) * inverse_[row];
    } else if constexpr (form == Form::kSimplified) {
      return x * inverse_[row];
    } else {
      return (x - third_[i]) / scale_[i];
    }
  }

  void RunRow(int64_t row) const {
    const T* dy = dy_ + row * s_.columns;
    T* dx = c_.out<T>(0).data() + row * s_.columns;
    const double columns = static_cast<double>(s_.columns);
    double sum = 0, product = 0;
    for (int64_t i = 0; i < s_.columns; ++i) {
      const T b = dy[i] * scale_[i] * inverse_[row];
      sum += static_cast<double>(b);
      product += static_cast<double>(b * Normalized(row, i));
    }
    const T shift = kHasMean ? static_cast<T>(sum / columns) : T{0};
    const T slope = static_cast<T>(product / columns);
    for (int64_t i = 0; i < s_.columns; ++i) {
      dx[i] = dy[i] * scale_[i] * inverse_[row] - shift -
              Normalized(row, i) * slope;
    }
  }

  // The sums over rows, for a few columns at a time.
  void SumColumns(int64_t group) const {
    const int64_t first = group * kTogether;
    const int64_t count = std::min(kTogether, s_.columns - first);
    double dscale[kTogether] = {}, dbias[kTogether] = {};
    for (int64_t row = 0; row < s_.rows; ++row) {
      const T* dy = dy_ + row * s_.columns + first;
      for (int64_t j = 0; j < count; ++j) {
        dscale[j] += static_cast<double>(dy[j] * Normalized(row, first + j));
        dbias[j] += static_cast<double>(dy[j]);
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      if (c_.has_output(1)) c_.out<T>(1)[first + j] = static_cast<T>(dscale[j]);
      if (kHasMean && c_.has_output(2)) {
        c_.out<T>(2)[first + j] = static_cast<T>(dbias[j]);
      }
    }
  }

  const KernelContext& c_;
  const LayerNormSizes s_;
  const T* dy_;
  const T* x_;
  const T* scale_;
  const T* third_;  // the mean per row, or the bias per column
  const T* inverse_;
};

template <Form form>
constexpr ReferenceKernel Kernel() {
  return Instantiate<Floats>(
      []<class T>(const KernelContext& c) { LayerNormGrad<T, form>(c).Run(); });
}

}  // namespace

extern constexpr OpDef kLayerNormalizationGrad = {
    .name = "LayerNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {5, 5},
    .outputs = {0, 3},
    .infer = InferLayerNormGrad,
    .reference = Kernel<Form::kCentered>(),
    .mixes_floats = true};

extern constexpr OpDef kSimplifiedLayerNormalizationGrad = {
    .name = "SimplifiedLayerNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {4, 4},
    .outputs = {0, 2},
    .infer = InferLayerNormGrad,
    .reference = Kernel<Form::kSimplified>(),
    .mixes_floats = true};

// x^ = (y - bias) / scale: nothing but Y is kept. A scale of 0 gives NaN.
extern constexpr OpDef kInvertibleLayerNormalizationGrad = {
    .name = "InvertibleLayerNormalizationGrad",
    .domain = kMicrosoft,
    .inputs = {5, 5},
    .outputs = {0, 3},
    .infer = InferInvertibleGrad,
    .reference = Kernel<Form::kInvertible>(),
    .mixes_floats = true};

}  // namespace strop::ops
