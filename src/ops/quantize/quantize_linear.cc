// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. The
// com.microsoft spellings of the first two mean the same.
#include <cmath>
#include <limits>
#include <utility>

#include "base/half.h"
#include "ops/gradient.h"
#include "ops/quantize/quantized.h"
#include "strop/execution_provider.h"

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

// The zero point's type (undefined: there is none), or that of output_dtype;
// uint8 without both.
DataType QuantizedType(const OpNode& node, DataType zero_point) {
  const auto said = static_cast<DataType>(node.Int("output_dtype", 0));
  if (zero_point != DataType::kUndefined) return zero_point;
  return said == DataType::kUndefined ? DataType::kUint8 : said;
}

// x, scale, zero point (optional) -> quantized x
void InferQuantize(InferContext& c) {
  const OpNode& node = c.node();
  const DataType said = static_cast<DataType>(node.Int("output_dtype", 0));
  const DataType type = QuantizedType(
      node, c.has_input(2) ? c.input(2).type : DataType::kUndefined);
  if (said != DataType::kUndefined && said != type) {
    Fail(node, "output_dtype is {}, the zero point's type {}",
         DataTypeName(said), DataTypeName(type));
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
DataType DivisionType(const KernelContext& c, size_t scale = 1) {
  const auto said = static_cast<DataType>(c.node().Int("precision", 0));
  return said == DataType::kUndefined ? c.input(scale).type() : said;
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

// --- Gradients
//
// The integer between the two ops has a gradient of a float type, as if
// nothing had been rounded: straight through where nothing was cut.

struct Range {
  double low, high;
  bool contains(double x) const { return low <= x && x <= high; }
};

Range RangeOf(DataType type) {
  Range range = {0, 255};
  DispatchType(QuantizedTypes{}, type, [&]<class T>() {
    range = {static_cast<double>(std::numeric_limits<T>::lowest()),
             static_cast<double>(std::numeric_limits<T>::max())};
  });
  return range;
}

// dq or dy, x or q, scale, zero point (optional) -> its gradient, that of the
// scale
void InferStraightThrough(InferContext& c) {
  RequireFloat(c, 0);
  RequireFloat(c, 2);
  RequireShape(c, 0, c.input(1).shape);
  ScaleMap(c.node(), c.input(1).shape, c.input(2).shape);
  const DataType type = c.input(1).type;
  c.SetOutput(0, IsFloatingPoint(type) ? type : c.input(0).type,
              c.input(0).shape);
  c.SetOutput(1, c.input(2).type, c.input(2).shape);
}

// Sums for the gradient of the scale.
size_t StraightThroughScratch(const KernelRequest& r) {
  return static_cast<size_t>(r.inputs[2].info.shape.element_count()) *
         sizeof(double);
}

// Calls slopes(dy, x, scale, zero, type) for each element; it returns the
// gradients of x and of the scale.
template <class Slopes>
void StraightThrough(const KernelContext& c, Slopes slopes) {
  const OpNode& node = c.node();
  const ScaleMap scales(node, c.input(1).shape(), c.input(2).shape());
  const int64_t scale_count = c.input(2).shape().element_count();
  auto* sums = reinterpret_cast<double*>(c.scratch());
  std::fill_n(sums, scale_count, 0.0);
  const auto row = [&](int64_t i, int64_t s, int64_t step, int64_t count) {
    double dy[kQuantBlock], x[kQuantBlock], scale[kQuantBlock],
        zero[kQuantBlock] = {};
    LoadDoubles(node, c.input(0), i, 1, count, dy);
    LoadDoubles(node, c.input(1), i, 1, count, x);
    LoadDoubles(node, c.input(2), s, step, count, scale);
    if (c.has_input(3)) LoadDoubles(node, c.input(3), s, step, count, zero);
    for (int64_t j = 0; j < count; ++j) {
      const auto [dx, dscale] = slopes(dy[j], x[j], scale[j], zero[j]);
      dy[j] = dx;
      sums[s + j * step] += dscale;
    }
    if (c.has_output(0)) StoreDoubles(node, c.output(0), i, count, dy);
  };
  scales.Run(0, c.input(0).element_count(), row);
  if (c.has_output(1)) StoreDoubles(node, c.output(1), 0, scale_count, sums);
}

// q = x / scale + zero point within the range of q, else constant
void QuantizeLinearGrad(const KernelContext& c) {
  const Range range = RangeOf(QuantizedType(
      c.node(), c.has_input(3) ? c.input(3).type() : DataType::kUndefined));
  const DataType type = DivisionType(c, 2);
  StraightThrough(c, [&](double dq, double x, double scale, double zero) {
    const double q = std::nearbyint(RoundTo(type, x / scale)) + zero;
    const double dx = range.contains(q) ? dq / scale : 0;
    return std::pair(dx, dx == 0 ? 0 : -dx * x / scale);
  });
}

// y = (q - zero point) scale
void DequantizeLinearGrad(const KernelContext& c) {
  StraightThrough(c, [](double dy, double q, double scale, double zero) {
    return std::pair(dy * scale, dy * (q - zero));
  });
}

void StraightThroughGradient(GradientContext& c, std::string_view op_type) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x(0));
  DataType types[] = {IsFloatingPoint(type) ? type : b.type(c.dy()),
                      c.needs(1) ? b.type(c.x(1)) : DataType::kUndefined};
  const Var zero = c.has_input(2) ? c.x(2) : Var{};
  const Var inputs[] = {c.dy(), c.x(0), c.x(1), zero};
  const auto gradients = b.Ops(op_type, inputs, types, c.attributes(), kStrop);
  c.Set(0, gradients[0]);
  c.Set(1, gradients[1]);
}

constexpr OpDef StraightThroughOp(std::string_view name,
                                  ReferenceKernel::Run run) {
  return {.name = name,
          .domain = kStrop,
          .inputs = {3, 4},
          .outputs = {1, 2},
          .infer = InferStraightThrough,
          .reference = Untyped<AllFloats>(run, StraightThroughScratch)};
}

constexpr OpDef Quantize(std::string_view domain, int since) {
  return {.name = "QuantizeLinear",
          .domain = domain,
          .since = since,
          .inputs = {2, 3},
          .infer = InferQuantize,
          .reference = Untyped<QuantizedInputs>(QuantizeLinear),
          .gradient = Rule([](GradientContext& c) {
            StraightThroughGradient(c, "QuantizeLinearGrad");
          }),
          .stops_gradient = {2}};
}

constexpr OpDef Dequantize(std::string_view domain, int since) {
  return {.name = "DequantizeLinear",
          .domain = domain,
          .since = since,
          .inputs = {2, 3},
          .infer = InferDequantize,
          .reference = Untyped<QuantizedTypes>(DequantizeLinear),
          .gradient = Rule([](GradientContext& c) {
            StraightThroughGradient(c, "DequantizeLinearGrad");
          }),
          .stops_gradient = {2}};
}

}  // namespace

extern constexpr OpDef kQuantizeLinear = Quantize("", 10);
extern constexpr OpDef kQuantizeLinearMicrosoft = Quantize(kMicrosoft, 1);
extern constexpr OpDef kDequantizeLinear = Dequantize("", 10);
extern constexpr OpDef kDequantizeLinearMicrosoft = Dequantize(kMicrosoft, 1);

// dq, x, scale, zero point -> dx, gradient of the scale (both optional); with
// the attributes of QuantizeLinear
extern constexpr OpDef kQuantizeLinearGrad =
    StraightThroughOp("QuantizeLinearGrad", QuantizeLinearGrad);
// dy, q, scale, zero point -> dq, gradient of the scale; with the attributes
// of DequantizeLinear
extern constexpr OpDef kDequantizeLinearGrad =
    StraightThroughOp("DequantizeLinearGrad", DequantizeLinearGrad);

extern constexpr OpDef kDynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .since = 11,
    .outputs = {3, 3},
    .infer = InferDynamicQuantize,
    .reference = Untyped<TypeList<float>>(DynamicQuantizeLinear),
    .stops_gradient = {0}};

}  // namespace strop::ops
