// SPDX-License-Identifier: Apache-2.0
//
// Layer normalization of the sum of a layer's input, a skip connection and a
// bias.
#include "ops/gradient.h"
#include "ops/nn/layer_norm.h"

namespace strop::ops {
namespace {

// Where the optional inputs and the outputs stand.
template <bool centered>
struct Slots {
  static constexpr size_t kBeta = 3;  // centered only
  static constexpr size_t kBias = centered ? 4 : 3;
};

LayerNormSizes ReadSizes(const Shape& x) {
  const size_t axis = x.rank() - 1;
  return {x.element_count(0, axis), x[axis], axis};
}

// The skip connection is the same for all of the leading axes that it lacks.
void RequireSkip(const InferContext& c) {
  RequireSameType(c, 1, 0);
  const Shape& x = c.input(0).shape;
  const Shape& skip = c.input(1).shape;
  bool fits = skip.rank() >= 1 && skip.rank() <= x.rank();
  bool leading = true;
  for (size_t i = 0; fits && i < skip.rank(); ++i) {
    const int64_t dim = x[i + x.rank() - skip.rank()];
    leading = leading && skip[i] == 1 && i + 1 < skip.rank();
    fits = skip[i] == dim || leading;
  }
  if (!fits) {
    Fail(c.node(), "the skip connection {} does not fit the input {}",
         skip.ToString(), x.ToString());
  }
}

// input, skip, gamma, beta (centered; optional), bias (optional) ->
// output, mean, inverse deviation, sum
template <bool centered>
void InferSkip(InferContext& c) {
  const TensorInfo& x = c.input(0);
  if (x.shape.rank() < 2) {
    Fail(c.node(), "wants an input of rank 2 or more, not {}",
         x.shape.ToString());
  }
  const LayerNormSizes s = ReadSizes(x.shape);
  RequireSkip(c);
  for (size_t i = 2; i < c.input_count(); ++i) {
    if (!c.has_input(i)) continue;
    RequireSameType(c, i, 0);
    RequireShape(c, i, {s.columns});
  }
  const Shape rows = LayerNormRowShape(x.shape, s.axis);
  c.SetOutput(0, x.type, x.shape);
  c.SetOutput(1, DataType::kFloat32, rows);
  c.SetOutput(2, DataType::kFloat32, rows);
  c.SetOutput(3, x.type, x.shape);
}

template <class T, bool centered>
void SkipLayerNorm(const KernelContext& c) {
  using Slot = Slots<centered>;
  const LayerNormSizes s = ReadSizes(c.input(0).shape());
  const double epsilon = c.node().Float("epsilon", 1e-12f);
  const auto optional = [&](size_t i) {
    return c.has_input(i) ? c.in<T>(i).data() : nullptr;
  };
  const auto xs = c.in<T>(0), skips = c.in<T>(1), gamma = c.in<T>(2);
  const T* beta = centered ? optional(Slot::kBeta) : nullptr;
  const T* bias = optional(Slot::kBias);
  const int64_t skip_rows =
      s.columns == 0 ? 1 : static_cast<int64_t>(skips.size()) / s.columns;
  const auto run_row = [&](int64_t row) {
    const T* x = xs.data() + row * s.columns;
    const T* skip = skips.data() + row % skip_rows * s.columns;
    const auto sum = [&](int64_t i) {
      return x[i] + skip[i] + (bias ? bias[i] : T{0});
    };
    const RowMoments m = MomentsOfRow<centered>(s.columns, epsilon, sum);
    const T center = static_cast<T>(m.mean), factor = static_cast<T>(m.inverse);
    T* y = c.out<T>(0).data() + row * s.columns;
    for (int64_t i = 0; i < s.columns; ++i) {
      const T value = sum(i);
      y[i] = (value - center) * factor * gamma[i] + (beta ? beta[i] : T{0});
      if (c.has_output(3)) c.out<T>(3)[row * s.columns + i] = value;
    }
    if (c.has_output(1)) c.out<float>(1)[row] = static_cast<float>(m.mean);
    if (c.has_output(2)) c.out<float>(2)[row] = static_cast<float>(m.inverse);
  };
  c.ParallelFor(s.rows, 4.0 * static_cast<double>(s.columns),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run_row(i);
                });
}

// --- Gradients

// The gradient of `sum`, which was normalized; those of gamma and beta are
// set. The op's own statistics are float32 even for float64.
template <bool centered>
Var SumGradient(GradientContext& c, Var sum) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x()), stash = AtLeastFloat32(type);
  const Attributes axis = {{"axis", int64_t{-1}}};
  Attributes settings = axis;
  settings.emplace_back("epsilon", c.node().Float("epsilon", 1e-12f));
  if (stash != DataType::kFloat32)
    settings.emplace_back("stash_type", static_cast<int64_t>(stash));
  const Var normalized[] = {sum, c.x(2)};
  std::vector<Var> inputs = {c.dy(), sum, c.x(2)};
  std::vector<DataType> types = {type, stash};
  if (centered) types.push_back(stash);
  const auto forward =
      b.Ops(centered ? "LayerNormalization" : "SimplifiedLayerNormalization",
            normalized, types, settings);
  inputs.insert(inputs.end(), forward.begin() + 1, forward.end());
  types = {type, type};
  if (centered && c.needs(Slots<centered>::kBeta)) types.push_back(type);
  const auto gradients = b.Ops(
      centered ? "LayerNormalizationGrad" : "SimplifiedLayerNormalizationGrad",
      inputs, types, axis, kMicrosoft);
  c.Set(2, gradients[1]);
  if (types.size() == 3) c.Set(Slots<centered>::kBeta, gradients[2]);
  return gradients[0];
}

// The sum (output 3) may be used as well.
template <bool centered>
void SkipGradient(GradientContext& c) {
  if (c.has_dy(1) || c.has_dy(2))
    c.Fail("has a gradient for its first output and the sum only");
  GraphBuilder& b = c.build();
  const Var sum = c.AddedOutput(3, "sum", b.type(c.x()));
  b.SetDims(sum, b.dims(c.x()));
  Var dsum = c.dy(3);
  if (c.has_dy(0)) {
    const Var part = SumGradient<centered>(c, sum);
    dsum = dsum ? part + dsum : part;
  }
  c.Set(0, dsum);
  for (const size_t i : {size_t{1}, Slots<centered>::kBias})
    if (c.needs(i)) c.Set(i, b.ReduceToShapeOf(dsum, c.x(0), c.x(i)));
}

}  // namespace

// With v = input + skip + bias:
// y = (v - mean) / sqrt(variance + epsilon) gamma + beta
extern constexpr OpDef kSkipLayerNormalization = {
    .name = "SkipLayerNormalization",
    .domain = kMicrosoft,
    .inputs = {3, 5},
    .outputs = {1, 4},
    .infer = InferSkip<true>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { SkipLayerNorm<T, true>(c); }),
    .gradient = Rule(SkipGradient<true>)};

// y = v / sqrt(mean(v^2) + epsilon) gamma; the mean is given as 0.
extern constexpr OpDef kSkipSimplifiedLayerNormalization = {
    .name = "SkipSimplifiedLayerNormalization",
    .domain = kMicrosoft,
    .inputs = {3, 4},
    .outputs = {1, 4},
    .infer = InferSkip<false>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { SkipLayerNorm<T, false>(c); }),
    .gradient = Rule(SkipGradient<false>)};

}  // namespace strop::ops
