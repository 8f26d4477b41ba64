// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize/quantized.h"

#include <cmath>
#include <utility>

namespace strop::ops {
namespace {

using LoadedTypes = TypeList<float, double, Float16, Bfloat16, int8_t, uint8_t,
                             int16_t, uint16_t, int32_t, uint32_t>;

[[noreturn]] void FailType(const OpNode& node, DataType type) {
  Fail(node, ErrorCode::kNotImplemented, "element type {} is not supported",
       DataTypeName(type));
}

}  // namespace

void LoadDoubles(const OpNode& node, const Tensor& from, int64_t first,
                 int64_t step, int64_t count, double* to) {
  const bool known = DispatchType(LoadedTypes{}, from.type(), [&]<class T>() {
    const T* x = from.values<T>().data() + first;
    for (int64_t j = 0; j < count; ++j) to[j] = ToDouble(x[j * step]);
  });
  if (!known) FailType(node, from.type());
}

void StoreDoubles(const OpNode& node, const Tensor& to, int64_t first,
                  int64_t count, const double* from) {
  const bool known = DispatchType(LoadedTypes{}, to.type(), [&]<class T>() {
    T* y = to.values<T>().data() + first;
    for (int64_t j = 0; j < count; ++j) y[j] = RoundedFromDouble<T>(from[j]);
  });
  if (!known) FailType(node, to.type());
}

double DoubleAt(const OpNode& node, const Tensor& tensor, int64_t i) {
  double value = 0;
  LoadDoubles(node, tensor, i, 1, 1, &value);
  return value;
}

ScaleMap::ScaleMap(const OpNode& node, const Shape& x, const Shape& scale) {
  const int64_t block = node.Int("block_size", 0);
  if (block < 0) Fail(node, "attribute block_size is {}", block);
  if (block == 0 && scale.rank() <= 1 && scale.element_count() == 1) {
    inner_ = std::max<int64_t>(1, x.element_count());
    return;
  }
  const size_t axis = NormalizeAxis(node, node.Int("axis", 1), x.rank());
  size_ = std::max<int64_t>(1, x[axis]);
  inner_ = std::max<int64_t>(1, x.element_count(axis + 1, x.rank()));
  const bool is_last = axis + 1 == x.rank();
  if (block == 0) {
    if (scale.rank() != 1 || scale[0] != x[axis]) {
      Fail(node, "a scale of shape {} does not fit axis {} of {}",
           scale.ToString(), axis, x.ToString());
    }
    if (is_last) {
      inner_ = std::exchange(size_, 1);
      inner_step_ = 1;
    } else {
      axis_step_ = 1;
    }
    return;
  }
  const int64_t blocks = x[axis] == 0 ? 0 : (x[axis] - 1) / block + 1;
  bool fits = scale.rank() == x.rank();
  for (size_t i = 0; fits && i < x.rank(); ++i) {
    fits = scale[i] == (i == axis ? blocks : x[i]);
  }
  if (!fits) {
    Fail(node, "a scale of shape {} does not fit blocks of {} in axis {} of {}",
         scale.ToString(), block, axis, x.ToString());
  }
  if (is_last && blocks > 0 && x[axis] % block == 0) {
    size_ = blocks;
    inner_ = block;
    axis_step_ = 1;
  } else {
    block_ = block;
    inner_step_ = 1;
    axis_step_ = inner_;
  }
  outer_step_ = scale.element_count(axis, x.rank());
}

Quantization ReadQuantization(const KernelContext& c, size_t scale,
                              size_t zero) {
  return {DoubleAt(c.node(), c.input(scale), 0),
          c.has_input(zero) ? DoubleAt(c.node(), c.input(zero), 0) : 0};
}

void Dequantize(const OpNode& node, const Tensor& from, const Quantization& q,
                int64_t first, int64_t step, int64_t count, double* to) {
  LoadDoubles(node, from, first, step, count, to);
  for (int64_t j = 0; j < count; ++j) to[j] = (to[j] - q.zero) * q.scale;
}

void Quantize(const OpNode& node, const Tensor& to, const Quantization& q,
              int64_t first, int64_t count, double* from) {
  for (int64_t j = 0; j < count; ++j) {
    const double scaled = static_cast<float>(from[j] / q.scale);
    from[j] = std::isnan(scaled) ? q.zero : std::nearbyint(scaled) + q.zero;
  }
  StoreDoubles(node, to, first, count, from);
}

void PerLine::Load(const OpNode& node, int64_t batch, int64_t first,
                   int64_t count, double* to) const {
  if (tensor == nullptr) {
    std::fill_n(to, count, fallback);
  } else {
    LoadDoubles(node, *tensor, batch * batch_step + first * step, step, count,
                to);
  }
}

double PerLine::At(const OpNode& node, int64_t line) const {
  double value;
  Load(node, 0, line, 1, &value);
  return value;
}

PerLine ReadLines(const KernelContext& c, size_t i, int64_t lines,
                  double fallback) {
  if (!c.has_input(i)) return {.fallback = fallback};
  const Tensor& tensor = c.input(i);
  if (tensor.element_count() == 1) return {.tensor = &tensor};
  return {.tensor = &tensor,
          .step = 1,
          .batch_step = tensor.shape().rank() > 1 ? lines : 0};
}

bool IsOneOrPerLine(const Shape& shape, int64_t lines) {
  return shape.element_count() == 1 || shape == Shape{lines};
}

DynamicScale FindDynamicScale(std::span<const float> x) {
  float low = 0, high = 0;
  for (const float value : x) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  DynamicScale q;
  q.scale = high == low ? 1.0f : (high - low) / 255;
  const float zero = std::nearbyint(std::clamp(-low / q.scale, 0.0f, 255.0f));
  q.zero = std::isnan(zero) ? uint8_t{0} : static_cast<uint8_t>(zero);
  return q;
}

uint8_t DynamicScale::Quantize(float x) const {
  const float y = std::nearbyint(x / scale) + static_cast<float>(zero);
  return std::isnan(y) ? zero
                       : static_cast<uint8_t>(std::clamp(y, 0.0f, 255.0f));
}

void RequireQuantized(const InferContext& c, size_t i, size_t most_bits) {
  const DataType type = c.input(i).type;
  const bool known = DispatchType(QuantizedTypes{}, type, []<class T>() {});
  if (!known || 8 * DataTypeSize(type) > most_bits) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "input {} may not be {}: numbers of {} bits or less are supported, "
         "8-bit floats and types of 4 bits are not",
         i, DataTypeName(type), most_bits);
  }
}

void RequireQuantization(const InferContext& c, size_t scale, size_t zero,
                         DataType data) {
  RequireFloat(c, scale);
  RequireOneElement(c, scale);
  if (!c.has_input(zero)) return;
  RequireOneElement(c, zero);
  if (c.input(zero).type != data) RequireType(c, zero, data);
}

void RequireQuantizedTriple(const InferContext& c, size_t i) {
  RequireQuantized(c, i);
  RequireQuantization(c, i + 1, i + 2, c.input(i).type);
}

DataType QuantizedOutputType(const InferContext& c, size_t scale) {
  RequireQuantized(c, scale + 1);
  RequireQuantization(c, scale, scale + 1, c.input(scale + 1).type);
  return c.input(scale + 1).type;
}

}  // namespace strop::ops
