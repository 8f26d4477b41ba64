// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/layer_norm.h"

#include <optional>

#include "ops/gradient.h"

namespace strop::ops {

LayerNormSizes ReadLayerNormSizes(const OpNode& node, const Shape& x) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", -1), x.rank());
  return {x.element_count(0, axis), x.element_count(axis, x.rank()), axis};
}

Shape LayerNormRowShape(const Shape& x, size_t axis) {
  std::vector<int64_t> dims(x.begin(), x.end());
  std::fill(dims.begin() + static_cast<int64_t>(axis), dims.end(), 1);
  return Shape(dims);
}

void RequireLayerNormScale(const InferContext& c, size_t i, size_t x) {
  RequireFloat(c, i);
  RequireBroadcastTo(c.node(), fmt::format("input {}", i), c.input(i).shape,
                     c.input(x).shape);
}

void RequireColumns(const InferContext& c, size_t i, size_t x,
                    const LayerNormSizes& s) {
  RequireLayerNormScale(c, i, x);
  const Shape& shape = c.input(i).shape;
  const Shape& x_shape = c.input(x).shape;
  const Dims strides = BroadcastStrides(shape, x_shape);
  bool per_column = shape.element_count() == s.columns;
  for (size_t axis = 0; axis < s.axis; ++axis) {
    per_column &= x_shape[axis] == 1 || strides[axis] == 0;
  }
  if (!per_column) {
    Fail(c.node(), "input {} must have one number per column of {}, not {}", i,
         x_shape.ToString(), shape.ToString());
  }
}

namespace {

// The type that stash_type names, float32 by default.
DataType StashType(const OpNode& node) {
  const int64_t stash =
      node.Int("stash_type", static_cast<int64_t>(DataType::kFloat32));
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64,
                              DataType::kFloat16, DataType::kBfloat16}) {
    if (static_cast<int64_t>(type) == stash) return type;
  }
  Fail(node, "attribute stash_type is {}, which is no float type", stash);
}

// X, scale, bias (optional) -> Y, of the scale's type, mean, 1 / sqrt(variance
// + epsilon), of the type that stash_type names
void InferLayerNorm(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const LayerNormSizes s = ReadLayerNormSizes(c.node(), x.shape);
  RequireLayerNormScale(c, 1, 0);
  if (c.has_input(2)) {
    RequireLayerNormScale(c, 2, 0);
    RequireSameType(c, 1, 2);
  }
  const Shape rows = LayerNormRowShape(x.shape, s.axis);
  c.SetOutput(0, c.input(1).type, x.shape);
  c.SetOutput(1, StashType(c.node()), rows);
  c.SetOutput(2, StashType(c.node()), rows);
}

// X, scale -> Y, of the scale's type, 1 / sqrt(mean of squares + epsilon)
void InferSimplified(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const LayerNormSizes s = ReadLayerNormSizes(c.node(), x.shape);
  RequireLayerNormScale(c, 1, 0);
  c.SetOutput(0, c.input(1).type, x.shape);
  c.SetOutput(1, StashType(c.node()), LayerNormRowShape(x.shape, s.axis));
}

// With `centered` the mean is taken out first.
template <class T, bool centered>
void LayerNorm(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const LayerNormSizes s = ReadLayerNormSizes(c.node(), shape);
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const LayerNormScale<T> scale(c.input(1), shape, s);
  std::optional<LayerNormScale<T>> bias;
  if (centered && c.has_input(2)) bias.emplace(c.input(2), shape, s);
  const T* xs = c.in<T>(0).data();
  T* ys = c.out<T>(0).data();
  const size_t inverse_output = centered ? 2 : 1;
  const auto run_row = [&](int64_t row) {
    const T* x = xs + row * s.columns;
    T* y = ys + row * s.columns;
    const RowMoments m = MomentsOfRow<centered>(
        s.columns, epsilon, [&](int64_t i) { return x[i]; });
    const T center = static_cast<T>(m.mean), factor = static_cast<T>(m.inverse);
    for (int64_t i = 0; i < s.columns; ++i) {
      y[i] = (x[i] - center) * factor * scale.at(row, i) +
             (bias ? bias->at(row, i) : T{0});
    }
    if (centered && c.has_output(1)) c.out<T>(1)[row] = center;
    if (c.has_output(inverse_output)) c.out<T>(inverse_output)[row] = factor;
  };
  c.ParallelFor(s.rows, 3.0 * static_cast<double>(s.columns),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_row(i);
                });
}

// --- Gradients

// From `axis` on, in numbers.
std::vector<int64_t> NormalizedAxes(GradientContext& c) {
  const auto rank = c.build().rank(c.x());
  if (!rank) c.Fail("the rank of its input must be known");
  const auto end = static_cast<int64_t>(*rank);
  int64_t axis = c.node().Int("axis", -1);
  if (axis < 0) axis += end;
  std::vector<int64_t> axes;
  for (; axis < end; ++axis) axes.push_back(axis);
  return axes;
}

// Whether there is one scale for each element of a group, as the gradient
// ops want it.
bool ScaleFitsGroup(GradientContext& c, size_t axes) {
  GraphBuilder& b = c.build();
  const auto &x = b.dims(c.x()), &scale = b.dims(c.x(1));
  if (!x || !scale || scale->size() != axes) return false;
  return std::equal(scale->begin(), scale->end(),
                    x->end() - static_cast<std::ptrdiff_t>(axes),
                    SameDimension);
}

// With g = dy scale and n the normalized x, r its factor:
//   dx = r (g - mean(g) - n mean(g n)), without mean(g) if not centered
void NormalizedGradient(GradientContext& c, bool centered) {
  GraphBuilder& b = c.build();
  const DataType wide = WidestFloat(c);
  const std::vector<int64_t> axes = NormalizedAxes(c);
  const Var x = b.Cast(c.x(), wide), dy = b.Cast(c.dy(), wide);
  const auto mean = [&](Var v) {
    const auto size = [&](Var w) {
      return b.Cast(b.Op("Size", {w}, {}, kOnnx, DataType::kInt64), wide);
    };
    const Var sum = b.ReduceSum(v, axes, /*keepdims=*/true);
    return sum * (size(sum) / size(v));
  };
  const double epsilon = c.node().Float("epsilon", 1e-5f);
  const Var difference = centered ? x - mean(x) : x;
  const Var r = 1 / b.Op("Sqrt", {mean(difference * difference) + epsilon});
  const Var n = difference * r;
  if (c.needs(0)) {
    const Var g = dy * b.Cast(c.x(1), wide);
    const Var along = n * mean(g * n);
    const Var dx = r * (centered ? g - mean(g) - along : g - along);
    c.Set(0, b.Cast(dx, b.type(c.x())));
  }
  if (c.needs(1)) {
    const Var dscale = b.ReduceToShapeOf(dy * n, c.x(), c.x(1));
    c.Set(1, b.Cast(dscale, b.type(c.x(1))));
  }
  if (c.needs(2)) {
    const Var dbias = b.ReduceToShapeOf(dy, c.x(), c.x(2));
    c.Set(2, b.Cast(dbias, b.type(c.x(2))));
  }
}

void RequireFirstOutputOnly(GradientContext& c) {
  if (c.has_dy(1) || c.has_dy(2))
    c.Fail("has a gradient for its first output only");
}

void LayerNormGradient(GradientContext& c) {
  RequireFirstOutputOnly(c);
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const DataType stash = StashType(c.node());
  // What is stashed must be as exact as x.
  const bool exact = stash == AtLeastFloat32(type);
  if (!exact || !ScaleFitsGroup(c, NormalizedAxes(c).size()))
    return NormalizedGradient(c, /*centered=*/true);
  const Var mean = c.AddedOutput(1, "mean", stash);
  const Var inverse = c.AddedOutput(2, "inv_std_dev", stash);
  const DataType types[] = {
      type, b.type(c.x(1)),
      c.has_input(2) ? b.type(c.x(2)) : DataType::kUndefined};
  const Var inputs[] = {c.dy(), c.x(0), c.x(1), mean, inverse};
  const auto gradients =
      b.Ops("LayerNormalizationGrad", inputs, types,
            {{"axis", c.node().Int("axis", -1)}}, kMicrosoft);
  for (size_t i = 0; i < 3; ++i) c.Set(i, gradients[i]);
}

void SimplifiedGradient(GradientContext& c) {
  RequireFirstOutputOnly(c);
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const DataType stash = StashType(c.node());
  const bool exact = stash == AtLeastFloat32(type);
  if (!exact || !ScaleFitsGroup(c, NormalizedAxes(c).size()))
    return NormalizedGradient(c, /*centered=*/false);
  const Var inverse = c.AddedOutput(1, "inv_std_dev", stash);
  const DataType types[] = {type, b.type(c.x(1))};
  const Var inputs[] = {c.dy(), c.x(0), c.x(1), inverse};
  const auto gradients =
      b.Ops("SimplifiedLayerNormalizationGrad", inputs, types,
            {{"axis", c.node().Int("axis", -1)}}, kMicrosoft);
  for (size_t i = 0; i < 2; ++i) c.Set(i, gradients[i]);
}

// ONNX Runtime's name for the op has the output that the gradient wants.
void RmsGradient(GradientContext& c) {
  c.Become("SimplifiedLayerNormalization", kOnnx);
  SimplifiedGradient(c);
}

}  // namespace

// y = (x - mean) / sqrt(variance + epsilon) scale + bias
extern constexpr OpDef kLayerNormalization = {
    .name = "LayerNormalization",
    .inputs = {2, 3},
    .outputs = {1, 3},
    .infer = InferLayerNorm,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNorm<T, true>(c); }),
    .gradient = Rule(LayerNormGradient),
    .mixes_floats = true};

// y = x / sqrt(mean(x^2) + epsilon) scale
extern constexpr OpDef kSimplifiedLayerNormalization = {
    .name = "SimplifiedLayerNormalization",
    .inputs = {2, 2},
    .outputs = {1, 2},
    .infer = InferSimplified,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNorm<T, false>(c); }),
    .gradient = Rule(SimplifiedGradient),
    .mixes_floats = true};

// The same under ONNX's name.
extern constexpr OpDef kRmsNormalization = {
    .name = "RMSNormalization",
    .inputs = {2, 2},
    .infer = InferSimplified,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LayerNorm<T, false>(c); }),
    .gradient = Rule(RmsGradient),
    .mixes_floats = true};

}  // namespace strop::ops
