// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. The
// com.microsoft spellings of the first two mean the same.
#include <cmath>

#include "base/half.h"
#include "ops/quantize/quantized.h"

namespace strop::ops {
namespace {

using QuantizedInputs = TypeList<float, double, Float16, Bfloat16, int32_t>;

bool IsQuantizedOutput(DataType type) {
  return DispatchType(TypeList<int8_t, uint8_t, int16_t, uint16_t>{}, type,
                      []<class T>() {});
}

// The zero point, where there is one, has the shape of the scale.
void CheckZeroPoint(const InferContext& c) {
  if (!c.has_input(2)) return;
  const Shape& scale = c.input(1).shape;
  const Shape& zero = c.input(2).shape;
  const bool both_single =
      scale.element_count() == 1 && zero.element_count() == 1;
  if (zero != scale && !both_single) {
    Fail(c.node(), "the zero point has the shape {}, the scale {}",
         zero.ToString(), scale.ToString());
  }
}

// x, scale, zero point (optional) -> quantized x, of the zero point's type or
// of output_dtype; uint8 without both.
void InferQuantize(InferContext& c) {
  const OpNode& node = c.node();
  const DataType said = static_cast<DataType>(node.Int("output_dtype", 0));
  DataType type = said == DataType::kUndefined ? DataType::kUint8 : said;
  if (c.has_input(2)) {
    type = c.input(2).type;
    if (said != DataType::kUndefined && said != type) {
      Fail(node, "output_dtype is {}, the zero point's type {}",
           DataTypeName(said), DataTypeName(type));
    }
  }
  if (!IsQuantizedOutput(type)) {
    Fail(node, ErrorCode::kNotImplemented,
         "does not quantize to {}, only to int8, uint8, int16 and uint16",
         DataTypeName(type));
  }
  if (c.input(0).type != DataType::kInt32) RequireFloat(c, 0);
  if (c.input(1).type != DataType::kInt32) RequireFloat(c, 1);
  CheckZeroPoint(c);
  ScaleMap(node, c.input(0).shape, c.input(1).shape);
  c.SetOutput(0, type, c.input(0).shape);
}

// The type in which x / scale is rounded: attribute precision, else the
// scale's type.
DataType DivisionType(const KernelContext& c) {
  const auto said = static_cast<DataType>(c.node().Int("precision", 0));
  return said == DataType::kUndefined ? c.input(1).type() : said;
}

double RoundTo(DataType type, double x) {
  if (type == DataType::kFloat64) return x;
  const float narrow = static_cast<float>(x);
  if (type == DataType::kFloat16) return ToFloat(ToFloat16(narrow));
  if (type == DataType::kBfloat16) return ToFloat(ToBfloat16(narrow));
  return narrow;
}

// y = saturate(round(x / scale) + zero point); NaN gives the zero point.
void QuantizeLinear(const KernelContext& c) {
  const OpNode& node = c.node();
  const ScaleMap scales(node, c.input(0).shape(), c.input(1).shape());
  const DataType type = DivisionType(c);
  const auto quantize_row = [&](int64_t i, int64_t s, int64_t step,
                                int64_t count) {
    double x[kQuantBlock], scale[kQuantBlock], zero[kQuantBlock] = {};
    LoadDoubles(node, c.input(0), i, 1, count, x);
    LoadDoubles(node, c.input(1), s, step, count, scale);
    if (c.has_input(2)) LoadDoubles(node, c.input(2), s, step, count, zero);
    for (int64_t j = 0; j < count; ++j) {
      const double scaled = RoundTo(type, x[j] / scale[j]);
      x[j] = zero[j] + (std::isnan(scaled) ? 0 : std::nearbyint(scaled));
    }
    StoreDoubles(node, c.output(0), i, count, x);
  };
  c.ParallelFor(c.output(0).element_count(), 3,
                [&](int64_t begin, int64_t end) {
                  scales.Run(begin, end, quantize_row);
                });
}

// x, scale, zero point (optional) -> numbers of the scale's type or of
// output_dtype.
void InferDequantize(InferContext& c) {
  RequireQuantized(c, 0, 32);
  RequireFloat(c, 1);
  if (c.has_input(2)) RequireSameType(c, 0, 2);
  CheckZeroPoint(c);
  ScaleMap(c.node(), c.input(0).shape, c.input(1).shape);
  const int64_t said = c.node().Int("output_dtype", 0);
  const DataType type =
      said == 0 ? c.input(1).type : static_cast<DataType>(said);
  if (said < 0 || said > 64 || !IsFloatingPoint(type)) {
    Fail(c.node(),
         "output_dtype is {}, which is no floating-point type that "
         "it gives",
         said);
  }
  c.SetOutput(0, type, c.input(0).shape);
}

// y = (x - zero point) * scale
void DequantizeLinear(const KernelContext& c) {
  const OpNode& node = c.node();
  const ScaleMap scales(node, c.input(0).shape(), c.input(1).shape());
  const auto dequantize_row = [&](int64_t i, int64_t s, int64_t step,
                                  int64_t count) {
    double x[kQuantBlock], scale[kQuantBlock], zero[kQuantBlock] = {};
    LoadDoubles(node, c.input(0), i, 1, count, x);
    LoadDoubles(node, c.input(1), s, step, count, scale);
    if (c.has_input(2)) LoadDoubles(node, c.input(2), s, step, count, zero);
    for (int64_t j = 0; j < count; ++j) x[j] = (x[j] - zero[j]) * scale[j];
    StoreDoubles(node, c.output(0), i, count, x);
  };
  c.ParallelFor(c.output(0).element_count(), 2,
                [&](int64_t begin, int64_t end) {
                  scales.Run(begin, end, dequantize_row);
                });
}

// x -> y (uint8), scale, zero point
void InferDynamicQuantize(InferContext& c) {
  RequireType(c, 0, DataType::kFloat32);
  c.SetOutput(0, DataType::kUint8, c.input(0).shape);
  c.SetOutput(1, DataType::kFloat32, {});
  c.SetOutput(2, DataType::kUint8, {});
}

// The range of x and 0 is mapped to 0 ... 255.
void DynamicQuantizeLinear(const KernelContext& c) {
  const DynamicScale q = FindDynamicScale(c.in<float>(0));
  const float* x = c.in<float>(0).data();
  uint8_t* y = c.out<uint8_t>(0).data();
  c.ParallelFor(c.output(0).element_count(), 2,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) y[i] = q.Quantize(x[i]);
                });
  c.out<float>(1)[0] = q.scale;
  c.out<uint8_t>(2)[0] = q.zero;
}

constexpr OpDef Quantize(std::string_view domain, int since) {
  return {.name = "QuantizeLinear",
          .domain = domain,
          .since = since,
          .inputs = {2, 3},
          .infer = InferQuantize,
          .reference = Untyped<QuantizedInputs>(QuantizeLinear),
          .stops_gradient = {1, 2}};
}

constexpr OpDef Dequantize(std::string_view domain, int since) {
  return {.name = "DequantizeLinear",
          .domain = domain,
          .since = since,
          .inputs = {2, 3},
          .infer = InferDequantize,
          .reference = Untyped<QuantizedTypes>(DequantizeLinear),
          .stops_gradient = {0, 2}};
}

}  // namespace

extern constexpr OpDef kQuantizeLinear = Quantize("", 10);
extern constexpr OpDef kQuantizeLinearMicrosoft = Quantize(kMicrosoft, 1);
extern constexpr OpDef kDequantizeLinear = Dequantize("", 10);
extern constexpr OpDef kDequantizeLinearMicrosoft = Dequantize(kMicrosoft, 1);

extern constexpr OpDef kDynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .since = 11,
    .outputs = {3, 3},
    .infer = InferDynamicQuantize,
    .reference = Untyped<TypeList<float>>(DynamicQuantizeLinear),
    .stops_gradient = {0}};

}  // namespace strop::ops
