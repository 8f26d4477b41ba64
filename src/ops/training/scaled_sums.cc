// SPDX-License-Identifier: Apache-2.0
//
// Sums of scaled tensors, and scales in mixed precision.
#include "ops/gradient.h"
#include "ops/number.h"

namespace strop::ops {
namespace {

constexpr const char* kScales[] = {"scale_0", "scale_1", "scale_2"};

float ScaleOf(const OpNode& node, size_t i) {
  if (!node.Has(kScales[i])) Fail(node, "attribute {} is missing", kScales[i]);
  return node.Float(kScales[i], 0);
}

void InferScaledSum(InferContext& c) {
  for (size_t i = 0; i < c.input_count(); ++i) {
    RequireSame(c, 0, i);
    ScaleOf(c.node(), i);
  }
  SameAsInput(c);
}

template <class T>
void ScaledSum(const KernelContext& c) {
  const bool has_third = c.has_input(2);
  const T* a = c.in<T>(0).data();
  const T* b = c.in<T>(1).data();
  const T* third = has_third ? c.in<T>(2).data() : nullptr;
  const T scale_a = ScaleOf(c.node(), 0), scale_b = ScaleOf(c.node(), 1);
  const T scale_third = has_third ? ScaleOf(c.node(), 2) : 0;
  T* y = c.out<T>(0).data();
  c.ParallelFor(c.output(0).element_count(), 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    y[i] = a[i] * scale_a + b[i] * scale_b;
                    if (third) y[i] += third[i] * scale_third;
                  }
                });
}

void InferBatchScale(InferContext& c) {
  for (size_t i = 0; i < c.output_count(); ++i) {
    ScaleOf(c.node(), i);
    c.SetOutput(i, c.input(0).type, c.input(0).shape);
  }
}

template <class T>
void BatchScale(const KernelContext& c) {
  const T* x = c.in<T>(0).data();
  for (size_t k = 0; k < c.output_count(); ++k) {
    if (!c.has_output(k)) continue;
    const T scale = ScaleOf(c.node(), k);
    T* y = c.out<T>(k).data();
    c.ParallelFor(c.input(0).element_count(), 0.5,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) y[i] = x[i] * scale;
                  });
  }
}

// --- MixedPrecisionScale

DataType ScaledType(const OpNode& node) {
  const auto type = static_cast<DataType>(node.Int("to"));
  if (!IsFloatingPoint(type)) {
    Fail(node, ErrorCode::kNotImplemented,
         "results of type {} are not supported", DataTypeName(type));
  }
  return type;
}

void InferMixedPrecisionScale(InferContext& c) {
  const DataType type = ScaledType(c.node());
  RequireOneElement(c, 0);
  for (size_t i = 1; i < c.input_count(); ++i) RequireSameType(c, 1, i);
  if (c.node().Int("fuse_outputs", 0) == 0) {
    if (c.output_count() + 1 != c.input_count()) {
      Fail(c.node(), "scales {} tensors into {} outputs", c.input_count() - 1,
           c.output_count());
    }
    for (size_t i = 0; i < c.output_count(); ++i) {
      c.SetOutput(i, type, c.input(i + 1).shape);
    }
    return;
  }
  if (c.output_count() != 1) {
    Fail(c.node(), "fuses {} outputs instead of one", c.output_count());
  }
  int64_t count = 0;
  for (size_t i = 1; i < c.input_count(); ++i) {
    // Shape throws before the sum of two can overflow.
    count = Shape{count + c.input(i).shape.element_count()}[0];
  }
  c.SetOutput(0, type, Shape{count});
}

// y[i] = scale x[i]; y has another type.
void ScaleInto(const KernelContext& c, double scale, const Tensor& x,
               const Tensor& y, int64_t offset) {
  DispatchType(AllFloats{}, x.type(), [&]<class From>() {
    DispatchType(AllFloats{}, y.type(), [&]<class To>() {
      const From* from = x.values<const From>().data();
      To* to = y.values<To>().data() + offset;
      c.ParallelFor(x.element_count(), 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          to[i] = FromDouble<To>(scale * ToDouble(from[i]));
        }
      });
    });
  });
}

void MixedPrecisionScale(const KernelContext& c) {
  const double scale = ScalarAsDouble(c.node(), c.input(0));
  const bool fused = c.node().Int("fuse_outputs", 0) != 0;
  int64_t offset = 0;
  for (size_t i = 1; i < c.input_count(); ++i) {
    const size_t output = fused ? 0 : i - 1;
    if (!c.has_output(output)) continue;
    ScaleInto(c, scale, c.input(i), c.output(output), offset);
    if (fused) offset += c.input(i).element_count();
  }
}

// --- Gradients

void ScaledSumGradient(GradientContext& c) {
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.needs(i)) c.Set(i, c.dy() * ScaleOf(c.node(), i));
}

void BatchScaleGradient(GradientContext& c) {
  std::vector<Var> parts;
  for (size_t i = 0; i < c.output_count(); ++i)
    if (c.has_dy(i)) parts.push_back(c.dy(i) * ScaleOf(c.node(), i));
  c.Set(0, parts.size() == 1 ? parts[0] : c.build().Op("Sum", parts));
}

// The vector of fuse_outputs is cut at the sizes of the inputs.
std::vector<Var> FusedParts(GradientContext& c) {
  GraphBuilder& b = c.build();
  std::vector<Var> sizes;
  std::vector<DataType> types;
  for (size_t i = 1; i < c.input_count(); ++i) {
    sizes.push_back(b.Reshape(
        b.Op("Size", {c.x(i)}, {}, kOnnx, DataType::kInt64), b.Ints({1})));
    types.push_back(b.type(c.dy()));
  }
  const Var inputs[] = {c.dy(), b.Op("Concat", sizes, {{"axis", int64_t{0}}})};
  std::vector<Var> parts =
      b.Ops("Split", inputs, types, {{"axis", int64_t{0}}});
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = b.Reshape(parts[i], b.Shape(c.x(i + 1)));
  return parts;
}

void MixedPrecisionScaleGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const bool fused = c.node().Int("fuse_outputs", 0) != 0;
  const std::vector<Var> parts = fused ? FusedParts(c) : std::vector<Var>();
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (!c.needs(i) || (!fused && !c.has_dy(i - 1))) continue;
    const DataType type = b.type(c.x(i));
    const Var dy = b.Cast(fused ? parts[i - 1] : c.dy(i - 1), type);
    const Var scale = b.Cast(b.Reshape(c.x(0), b.Ints({})), type);
    c.Set(i, dy * scale);
  }
}

}  // namespace

// y = a scale_0 + b scale_1 (+ c scale_2)
extern constexpr OpDef kScaledSum = {
    .name = "ScaledSum",
    .domain = kMicrosoft,
    .inputs = {2, 3},
    .infer = InferScaledSum,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ScaledSum<T>(c); }),
    .may_overwrite = {0, 1, 2},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule(ScaledSumGradient)};

// Its gradient: x scale_0, x scale_1 (, x scale_2)
extern constexpr OpDef kBatchScale = {
    .name = "BatchScale",
    .domain = kMicrosoft,
    .outputs = {0, 3},
    .infer = InferBatchScale,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { BatchScale<T>(c); }),
    .gradient = Rule(BatchScaleGradient)};

// scale, x... -> scale x... in the type `to`; with fuse_outputs one after
// another in a single vector.
extern constexpr OpDef kMixedPrecisionScale = {
    .name = "MixedPrecisionScale",
    .domain = kMicrosoft,
    .inputs = {2, Arity::kVariadic},
    .outputs = {0, Arity::kVariadic},
    .infer = InferMixedPrecisionScale,
    .reference = {.run = MixedPrecisionScale,
                  .supports = IsFloatingPoint,
                  .type_input = 1},
    .gradient = Rule(MixedPrecisionScaleGradient),
    .stops_gradient = {0}};

}  // namespace strop::ops
