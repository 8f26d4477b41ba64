// SPDX-License-Identifier: Apache-2.0
#include "ops/nn/resize.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "base/half.h"
#include "ops/nn/cubic.h"

namespace strop::ops {
namespace {

// Taps of the stretched filters of antialiasing stay below this.
constexpr double kLargestTapCount = 0x1p20;

template <class E>
struct Choice {
  std::string_view name;
  E value;
};

template <class E, size_t n>
E ReadChoice(const OpNode& node, std::string_view attribute,
             const Choice<E> (&choices)[n]) {
  const std::string_view name = node.String(attribute, choices[0].name);
  for (const Choice<E>& choice : choices) {
    if (choice.name == name) return choice.value;
  }
  Fail(node, "attribute {} is \"{}\"", attribute, name);
}

// The defaults stand first.
constexpr Choice<ResizeMode> kModes[] = {{"nearest", ResizeMode::kNearest},
                                         {"linear", ResizeMode::kLinear},
                                         {"bilinear", ResizeMode::kLinear},
                                         {"cubic", ResizeMode::kCubic}};
constexpr Choice<ResizeCoordinates> kCoordinates[] = {
    {"half_pixel", ResizeCoordinates::kHalfPixel},
    {"half_pixel_symmetric", ResizeCoordinates::kHalfPixelSymmetric},
    {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
    {"align_corners", ResizeCoordinates::kAlignCorners},
    {"asymmetric", ResizeCoordinates::kAsymmetric},
    {"tf_half_pixel_for_nn", ResizeCoordinates::kTfHalfPixelForNn},
    {"tf_crop_and_resize", ResizeCoordinates::kTfCropAndResize}};
constexpr Choice<NearestMode> kNearestModes[] = {
    {"round_prefer_floor", NearestMode::kRoundPreferFloor},
    {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
    {"floor", NearestMode::kFloor},
    {"ceil", NearestMode::kCeil}};

enum class Policy { kStretch, kNotLarger, kNotSmaller };
constexpr Choice<Policy> kPolicies[] = {{"stretch", Policy::kStretch},
                                        {"not_larger", Policy::kNotLarger},
                                        {"not_smaller", Policy::kNotSmaller}};

bool Given(const Tensor* tensor) {
  return tensor != nullptr && tensor->element_count() > 0;
}

double FloatAt(const OpNode& node, const Tensor& tensor, size_t i) {
  switch (tensor.type()) {
    case DataType::kFloat32:
      return static_cast<double>(tensor.values<float>()[i]);
    case DataType::kFloat64:
      return tensor.values<double>()[i];
    case DataType::kFloat16:
      return static_cast<double>(ToFloat(tensor.values<Float16>()[i]));
    case DataType::kBfloat16:
      return static_cast<double>(ToFloat(tensor.values<Bfloat16>()[i]));
    default:
      Fail(node, "the region of interest must be of floats, not {}",
           DataTypeName(tensor.type()));
  }
}

// The axes that roi, scales and sizes speak of, in their order.
struct NamedAxes {
  size_t count = 0;
  size_t axes[Shape::kMaxRank] = {};
};

NamedAxes ReadNamedAxes(const OpNode& node, size_t rank) {
  NamedAxes named;
  if (!node.Has("axes")) {
    for (size_t i = 0; i < rank; ++i) named.axes[named.count++] = i;
    return named;
  }
  NormalizeAxes(node, node.Ints("axes"), rank);  // none twice
  for (const int64_t axis : node.Ints("axes")) {
    named.axes[named.count++] = NormalizeAxis(node, axis, rank);
  }
  return named;
}

void RequireCount(const OpNode& node, std::string_view what,
                  const Tensor& tensor, size_t count) {
  if (tensor.element_count() != static_cast<int64_t>(count)) {
    Fail(node, "{} {} for {} axes", tensor.element_count(), what, count);
  }
}

ResizePlan StartPlan(const OpNode& node, const Shape& x) {
  ResizePlan plan;
  plan.mode = ReadChoice(node, "mode", kModes);
  plan.rank = x.rank();
  for (size_t i = 0; i < x.rank(); ++i) {
    plan.axes[i].input = plan.axes[i].output = x[i];
    plan.axes[i].length = static_cast<double>(x[i]);
  }
  return plan;
}

void SetScale(const OpNode& node, ResizeAxis& axis, float scale) {
  if (!(scale > 0 && std::isfinite(scale))) {
    Fail(node, "a scale of {} is impossible", scale);
  }
  // In float32, as everybody else does it: 10 * 0.7f is 7.
  const float length = static_cast<float>(axis.input) * scale;
  if (!(length < 0x1p40f)) {
    Fail(node, "{} elements times {} are too many", axis.input, scale);
  }
  axis.output = static_cast<int64_t>(length);
  axis.scale = static_cast<double>(scale);
  axis.length = axis.scale * static_cast<double>(axis.input);
}

void SetSize(const OpNode& node, ResizeAxis& axis, int64_t size) {
  if (size < 0 || size > (int64_t{1} << 40)) {
    Fail(node, "a size of {} is impossible", size);
  }
  axis.output = size;
  axis.length = static_cast<double>(size);
  axis.scale = axis.input == 0 ? 1
                               : static_cast<double>(size) /
                                     static_cast<double>(axis.input);
}

// One scale for all named axes; sizes follow from it, rounded half up.
void KeepAspectRatio(const OpNode& node, ResizePlan& plan,
                     const NamedAxes& named, bool larger) {
  if (named.count == 0) return;
  double scale = plan.axes[named.axes[0]].scale;
  for (size_t i = 1; i < named.count; ++i) {
    const double other = plan.axes[named.axes[i]].scale;
    scale = larger ? std::max(scale, other) : std::min(scale, other);
  }
  for (size_t i = 0; i < named.count; ++i) {
    ResizeAxis& axis = plan.axes[named.axes[i]];
    const double length = scale * static_cast<double>(axis.input);
    if (!(length < 0x1p40)) {
      Fail(node, "{} elements times {} are too many", axis.input, scale);
    }
    axis.output = static_cast<int64_t>(length + 0.5);
    axis.scale = scale;
    axis.length = length;
  }
}

void ReadSizes(const OpNode& node, ResizePlan& plan, const NamedAxes& named,
               const Tensor& sizes) {
  RequireCount(node, "sizes", sizes, named.count);
  if (!IsIndexType(sizes.type())) {
    Fail(node, "sizes must be int64, not {}", DataTypeName(sizes.type()));
  }
  for (size_t i = 0; i < named.count; ++i) {
    SetSize(node, plan.axes[named.axes[i]], IndexAt(sizes, i));
  }
  const Policy policy = ReadChoice(node, "keep_aspect_ratio_policy", kPolicies);
  if (policy != Policy::kStretch) {
    KeepAspectRatio(node, plan, named, policy == Policy::kNotSmaller);
  }
}

void ReadScales(const OpNode& node, ResizePlan& plan, const NamedAxes& named,
                const Tensor& scales) {
  RequireCount(node, "scales", scales, named.count);
  if (scales.type() != DataType::kFloat32) {
    Fail(node, "scales must be float32, not {}", DataTypeName(scales.type()));
  }
  for (size_t i = 0; i < named.count; ++i) {
    SetScale(node, plan.axes[named.axes[i]], scales.values<float>()[i]);
  }
}

void ReadRoi(const OpNode& node, ResizePlan& plan, const NamedAxes& named,
             const Tensor* roi) {
  if (!Given(roi)) {
    Fail(node, "tf_crop_and_resize wants a region of interest");
  }
  RequireCount(node, "numbers of the region of interest", *roi,
               2 * named.count);
  for (size_t i = 0; i < named.count; ++i) {
    ResizeAxis& axis = plan.axes[named.axes[i]];
    axis.start = FloatAt(node, *roi, i);
    axis.end = FloatAt(node, *roi, i + named.count);
    if (!std::isfinite(axis.start) || !std::isfinite(axis.end)) {
      Fail(node, "the region of interest reaches from {} to {}", axis.start,
           axis.end);
    }
  }
}

void FinishPlan(const OpNode& node, const ResizePlan& plan) {
  for (size_t i = 0; i < plan.rank; ++i) {
    const ResizeAxis& axis = plan.axes[i];
    if (axis.input == 0 && axis.output != 0) {
      Fail(node, "cannot make {} elements along axis {} from none", axis.output,
           i);
    }
    if (plan.antialias && !(4 / axis.scale < kLargestTapCount) &&
        axis.output != 0) {
      Fail(node, "a scale of {} along axis {} is too small to antialias",
           axis.scale, i);
    }
  }
}

bool IsIdentity(const ResizePlan& plan, const ResizeAxis& axis) {
  return axis.input == axis.output && axis.scale == 1 &&
         (plan.coordinates != ResizeCoordinates::kTfCropAndResize ||
          (axis.start == 0 && axis.end == 1));
}

// Where output position o lies in the input. F is the type to compute in.
template <class F>
F Coordinate(const ResizePlan& plan, const ResizeAxis& axis, int64_t o) {
  const F at = static_cast<F>(o);
  const F last = static_cast<F>(axis.input - 1);
  const F scale = static_cast<F>(axis.scale);
  const F half = (at + F(0.5)) / scale - F(0.5);
  switch (plan.coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return half;
    case ResizeCoordinates::kHalfPixelSymmetric: {
      const F adjustment =
          static_cast<F>(axis.output) / static_cast<F>(axis.length);
      return static_cast<F>(axis.input) / 2 * (1 - adjustment) + half;
    }
    case ResizeCoordinates::kPytorchHalfPixel:
      return axis.output > 1 ? half : 0;
    case ResizeCoordinates::kAlignCorners:
      // ONNX's own reference takes the exact length, others the whole one.
      return axis.length == 1 || axis.output == 1
                 ? 0
                 : at * last / static_cast<F>(axis.length - 1);
    case ResizeCoordinates::kAsymmetric:
      return at / scale;
    case ResizeCoordinates::kTfHalfPixelForNn:
      return (at + F(0.5)) / scale;
    case ResizeCoordinates::kTfCropAndResize: {
      const F start = static_cast<F>(axis.start),
              end = static_cast<F>(axis.end);
      return axis.output > 1
                 ? start * last + at * (end - start) * last /
                                      static_cast<F>(axis.output - 1)
                 : F(0.5) * (start + end) * last;
    }
  }
  return 0;
}

// To find the nearest position everybody computes in float32: 3 / 0.6f is 5
// there, and a little less in double.
double Coordinate(const ResizePlan& plan, const ResizeAxis& axis, int64_t o) {
  return plan.mode == ResizeMode::kNearest
             ? static_cast<double>(Coordinate<float>(plan, axis, o))
             : Coordinate<double>(plan, axis, o);
}

double Nearest(const ResizePlan& plan, const ResizeAxis& axis, double x) {
  switch (plan.nearest) {
    case NearestMode::kRoundPreferFloor:
      return std::ceil(x - 0.5);
    case NearestMode::kRoundPreferCeil:
      return std::floor(x + 0.5);
    case NearestMode::kFloor:
      return std::floor(x);
    case NearestMode::kCeil:
      return std::ceil(x);
    case NearestMode::kSimple:
      return axis.scale < 1 ? std::ceil(x) : std::floor(x);
  }
  return x;
}

// The linear interpolating filter at a distance from the tap.
double Linear(double distance) { return std::max(0.0, 1 - distance); }

// How far antialiasing stretches the filter.
double Stretch(const ResizePlan& plan, const ResizeAxis& axis) {
  return plan.antialias ? std::max(1.0, 1 / axis.scale) : 1;
}

int64_t Clamp(double x, int64_t size) {
  return static_cast<int64_t>(
      std::clamp(x, 0.0, static_cast<double>(size - 1)));
}

// Positions and weights of `count` taps around x. Positions outside the
// input count as its border, or not at all.
void FillTaps(const ResizePlan& plan, const ResizeAxis& axis, double x,
              int64_t count, int64_t* positions, double* weights) {
  if (plan.mode == ResizeMode::kNearest) {
    positions[0] = Clamp(Nearest(plan, axis, x), axis.input);
    weights[0] = 1;
    return;
  }
  const double stretch = Stretch(plan, axis);
  const double first = std::ceil(x) - static_cast<double>(count / 2);
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double position = first + static_cast<double>(k);
    const double distance = std::abs(position - x) / stretch;
    const bool outside =
        position < 0 || position > static_cast<double>(axis.input - 1);
    weights[k] = plan.exclude_outside && outside ? 0
                 : plan.mode == ResizeMode::kLinear
                     ? Linear(distance)
                     : Cubic(distance, plan.cubic_a);
    positions[k] = Clamp(position, axis.input);
    sum += weights[k];
  }
  if (!plan.antialias && !plan.exclude_outside) return;  // the sum is 1
  for (int64_t k = 0; k < count; ++k) weights[k] /= sum == 0 ? 1 : sum;
}

}  // namespace

int64_t ResizePlan::TapCount(size_t axis) const {
  if (mode == ResizeMode::kNearest || IsIdentity(*this, axes[axis])) return 1;
  const double radius =
      (mode == ResizeMode::kLinear ? 1 : 2) * Stretch(*this, axes[axis]);
  return 2 * static_cast<int64_t>(std::ceil(radius));
}

size_t ResizePlan::KeptAxes() const {
  size_t kept = 0;
  while (kept < rank && IsIdentity(*this, axes[kept])) ++kept;
  return kept;
}

Shape ResizePlan::OutputShape() const {
  Dims dims = {};
  for (size_t i = 0; i < rank; ++i) dims[i] = axes[i].output;
  return Shape({dims.data(), rank});
}

ResizePlan ReadResize(const OpNode& node, const Shape& x,
                      const ResizeInputs& inputs, const Shape* output) {
  ResizePlan plan = StartPlan(node, x);
  plan.coordinates =
      ReadChoice(node, "coordinate_transformation_mode", kCoordinates);
  plan.nearest = ReadChoice(node, "nearest_mode", kNearestModes);
  plan.antialias = node.Int("antialias", 0) != 0;
  plan.exclude_outside = node.Int("exclude_outside", 0) != 0;
  plan.cubic_a = node.Float("cubic_coeff_a", -0.75f);
  plan.extrapolation = node.Float("extrapolation_value", 0);
  if (plan.antialias && plan.mode == ResizeMode::kNearest) {
    Fail(node, "mode nearest has nothing to antialias");
  }
  const NamedAxes named = ReadNamedAxes(node, x.rank());
  if (Given(inputs.scales) && Given(inputs.sizes)) {
    Fail(node, "takes scales or sizes, not both");
  }
  if (Given(inputs.sizes)) {
    ReadSizes(node, plan, named, *inputs.sizes);
  } else if (Given(inputs.scales)) {
    ReadScales(node, plan, named, *inputs.scales);
  } else if (output != nullptr) {
    if (output->rank() != x.rank()) {
      Fail(node, "shapes {} and {} differ in rank", x.ToString(),
           output->ToString());
    }
    if (ReadChoice(node, "keep_aspect_ratio_policy", kPolicies) !=
        Policy::kStretch) {
      Fail(node, ErrorCode::kNotImplemented,
           "wants the sizes of the forward node where it keeps the aspect "
           "ratio");
    }
    for (size_t i = 0; i < plan.rank; ++i) {
      SetSize(node, plan.axes[i], (*output)[i]);
    }
  } else if (x.rank() != 0) {
    Fail(node, "wants scales or sizes");
  }
  if (plan.coordinates == ResizeCoordinates::kTfCropAndResize) {
    ReadRoi(node, plan, named, inputs.roi);
  }
  FinishPlan(node, plan);
  return plan;
}

ResizePlan ReadUpsample(const OpNode& node, const Shape& x,
                        std::span<const float> scales, NearestMode nearest) {
  ResizePlan plan = StartPlan(node, x);
  if (plan.mode == ResizeMode::kCubic) {
    Fail(node, "mode cubic is newer than opset 10");
  }
  plan.coordinates = ResizeCoordinates::kAsymmetric;
  plan.nearest = nearest;
  if (scales.size() != x.rank()) {
    Fail(node, "{} scales for {} axes", scales.size(), x.rank());
  }
  for (size_t i = 0; i < x.rank(); ++i) {
    SetScale(node, plan.axes[i], scales[i]);
  }
  FinishPlan(node, plan);
  return plan;
}

size_t ResizeTable::Bytes(const OpNode& node, const Shape& x, const Shape& y) {
  if (y.element_count() == 0) return 0;  // nobody asks
  const ResizeMode mode = ReadChoice(node, "mode", kModes);
  const double radius = mode == ResizeMode::kCubic ? 2 : 1;
  double numbers = 0;
  for (size_t i = 0; i < y.rank(); ++i) {
    if (y[i] == 0) continue;
    // The output is at least half of what the scale makes of the input.
    const double stretch =
        node.Int("antialias", 0) == 0
            ? 1
            : 1 + 2 * static_cast<double>(x[i]) / static_cast<double>(y[i]);
    numbers += static_cast<double>(y[i]) * 2 * std::ceil(radius * stretch);
  }
  constexpr double kMost = 0x1p56;  // more than anybody has
  return static_cast<size_t>(std::min(numbers, kMost)) *
         (sizeof(int64_t) + sizeof(double));
}

ResizeTable::ResizeTable(const ResizePlan& plan, std::byte* memory) {
  for (size_t i = 0; i < plan.rank; ++i) {
    const ResizeAxis& from = plan.axes[i];
    Axis& axis = axes_[i];
    axis.count = plan.TapCount(i);
    const size_t numbers = static_cast<size_t>(from.output * axis.count);
    axis.positions = reinterpret_cast<int64_t*>(memory);
    memory += numbers * sizeof(int64_t);
    axis.weights = reinterpret_cast<double*>(memory);
    memory += numbers * sizeof(double);
    for (int64_t o = 0; o < from.output; ++o) {
      int64_t* positions = axis.positions + o * axis.count;
      double* weights = axis.weights + o * axis.count;
      if (IsIdentity(plan, from)) {
        positions[0] = o;
        weights[0] = 1;
        continue;
      }
      const double x = Coordinate(plan, from, o);
      if (plan.coordinates == ResizeCoordinates::kTfCropAndResize &&
          !(x >= 0 && x <= static_cast<double>(from.input - 1))) {
        positions[0] = -1;
        continue;
      }
      FillTaps(plan, from, x, axis.count, positions, weights);
    }
  }
}

}  // namespace strop::ops
