// SPDX-License-Identifier: Apache-2.0
//
// What LayerNormalization, its RMS form, the forms with a skip connection and
// the gradients share. The tensor is seen as rows x columns, cut at `axis`.
#pragma once

#include <cmath>

#include "ops/op_util.h"

namespace strop::ops {

struct LayerNormSizes {
  int64_t rows, columns;
  size_t axis;
};

// From attribute axis.
LayerNormSizes ReadLayerNormSizes(const OpNode& node, const Shape& x);

// One number per row: (d0, ..., d(axis - 1), 1, ..., 1).
Shape LayerNormRowShape(const Shape& x, size_t axis);

// Input i, of any floating-point type, broadcasts to input x.
void RequireLayerNormScale(const InferContext& c, size_t i, size_t x);
// Input i has one number per column of input x.
void RequireColumns(const InferContext& c, size_t i, size_t x,
                    const LayerNormSizes& s);

struct RowMoments {
  double mean = 0;
  double inverse = 0;  // 1 / sqrt(variance + epsilon)
};

// Moments of value(0), ..., value(columns - 1); unless centered the mean is
// taken to be 0.
template <bool centered, class F>
RowMoments MomentsOfRow(int64_t columns, double epsilon, F&& value) {
  RowMoments m;
  double squares = 0;
  if constexpr (centered) {
    for (int64_t i = 0; i < columns; ++i) {
      m.mean += static_cast<double>(value(i));
    }
    m.mean /= static_cast<double>(columns);
  }
  for (int64_t i = 0; i < columns; ++i) {
    const double d = static_cast<double>(value(i)) - m.mean;
    squares += d * d;
  }
  m.inverse = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
  return m;
}

// A scale or bias that broadcasts to x.
template <class T>
class LayerNormScale {
 public:
  LayerNormScale(const Tensor& scale, const Shape& x, const LayerNormSizes& s)
      : data_(scale.values<T>().data()),
        x_(x),
        columns_(s.columns),
        strides_(BroadcastStrides(scale.shape(), x)) {
    const Dims full = Strides(x);
    for (size_t i = 0; i < x.rank(); ++i) {
      per_column_ &= x[i] == 1 || strides_[i] == (i < s.axis ? 0 : full[i]);
    }
  }

  T at(int64_t row, int64_t column) const {
    if (per_column_) return data_[column];
    int64_t index = row * columns_ + column, offset = 0;
    for (size_t i = x_.rank(); i-- > 0;) {
      offset += index % x_[i] * strides_[i];
      index /= x_[i];
    }
    return data_[offset];
  }

 private:
  const T* data_;
  const Shape& x_;
  int64_t columns_;
  Dims strides_;
  bool per_column_ = true;
};

}  // namespace strop::ops
