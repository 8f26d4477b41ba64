// SPDX-License-Identifier: Apache-2.0
//
// Resize, Upsample and their gradients. Weights come from ops/nn/resize.h.
#include <cmath>
#include <limits>

#include "ops/gradient.h"
#include "ops/nn/resize.h"
#include "ops/number.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// Bool can be moved, not mixed.
using ResizeTypes = NumbersAndBools;

// --- Plans

const Tensor* InputOrNull(const KernelContext& c, size_t i) {
  return c.has_input(i) ? &c.input(i) : nullptr;
}
const Tensor* InputOrNull(const InferContext& c, size_t i) {
  return c.has_input(i) ? &c.value(i) : nullptr;
}
const Shape& ShapeOf(const KernelContext& c, size_t i) {
  return c.input(i).shape();
}
const Shape& ShapeOf(const InferContext& c, size_t i) {
  return c.input(i).shape;
}

// X, roi, scales, sizes, each but X optional
template <class Context>
ResizePlan Plan11(const Context& c) {
  return ReadResize(c.node(), ShapeOf(c, 0),
                    {.roi = InputOrNull(c, 1),
                     .scales = InputOrNull(c, 2),
                     .sizes = InputOrNull(c, 3)});
}

std::span<const float> FloatScales(const OpNode& node, const Tensor& scales) {
  if (scales.type() != DataType::kFloat32) {
    Fail(node, "scales must be float32, not {}", DataTypeName(scales.type()));
  }
  return scales.values<float>();
}

// X, scales
template <class Context, NearestMode nearest>
ResizePlan PlanUpsample(const Context& c) {
  return ReadUpsample(c.node(), ShapeOf(c, 0),
                      FloatScales(c.node(), *InputOrNull(c, 1)), nearest);
}

// X (N, C, H, W), the scales are attributes
template <class Context>
ResizePlan PlanUpsample1(const Context& c) {
  const float scales[] = {1, 1, c.node().Float("height_scale", 1),
                          c.node().Float("width_scale", 1)};
  return ReadUpsample(c.node(), ShapeOf(c, 0), scales, NearestMode::kFloor);
}

// dY, X, roi, scales, sizes; sizes only where the aspect ratio was kept.
template <class Context>
ResizePlan PlanGrad(const Context& c) {
  return ReadResize(c.node(), ShapeOf(c, 1),
                    {.roi = InputOrNull(c, 2),
                     .scales = InputOrNull(c, 3),
                     .sizes = InputOrNull(c, 4)},
                    &ShapeOf(c, 0));
}

// dY, X, scales. Attribute shrinks_up: where an axis shrinks, the upper
// neighbour is the nearest, as in Resize of opset 10.
template <class Context>
ResizePlan PlanUpsampleGrad(const Context& c) {
  const bool shrinks_up = c.node().Int("shrinks_up", 0) != 0;
  return ReadUpsample(c.node(), ShapeOf(c, 1),
                      FloatScales(c.node(), *InputOrNull(c, 2)),
                      shrinks_up ? NearestMode::kSimple : NearestMode::kFloor);
}

template <class Context>
using MakePlan = ResizePlan (*)(const Context&);

template <MakePlan<InferContext> make_plan>
void InferResize(InferContext& c) {
  const ResizePlan plan = make_plan(c);
  const DataType type = c.input(0).type;
  if (type == DataType::kBool && plan.mode != ResizeMode::kNearest) {
    Fail(c.node(), "bool has no values in between: mode must be nearest");
  }
  c.SetOutput(0, type, plan.OutputShape());
}

template <MakePlan<InferContext> make_plan>
void InferGrad(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireShape(c, 0, make_plan(c).OutputShape());
  c.SetOutput(0, c.input(1).type, c.input(1).shape);
}

size_t ForwardScratch(const KernelRequest& r) {
  return ResizeTable::Bytes(r.node, r.inputs[0].info.shape, r.outputs[0].shape);
}
size_t GradScratch(const KernelRequest& r) {
  return ResizeTable::Bytes(r.node, r.inputs[1].info.shape,
                            r.inputs[0].info.shape);
}

// --- The taps of one output element

// Walks all outputs of a plane: what is behind the axes that are kept.
class Taps {
 public:
  Taps(const ResizePlan& plan, const ResizeTable& table)
      : plan_(plan), table_(table), first_(plan.KeptAxes()) {
    int64_t stride = 1;
    for (size_t i = plan.rank; i-- > first_;) {
      strides_[i] = stride;
      stride *= plan.axes[i].input;
    }
  }

  // Moves to output `index` of the plane; false where it is extrapolated.
  bool MoveTo(int64_t index) {
    bool inside = true;
    for (size_t i = plan_.rank; i-- > first_;) {
      const int64_t o = index % plan_.axes[i].output;
      index /= plan_.axes[i].output;
      positions_[i] = table_.positions(i, o);
      weights_[i] = table_.weights(i, o);
      inside &= positions_[i] != nullptr;
    }
    return inside;
  }

  // The one tap of mode nearest.
  int64_t Offset() const {
    int64_t offset = 0;
    for (size_t i = first_; i < plan_.rank; ++i) {
      offset += positions_[i][0] * strides_[i];
    }
    return offset;
  }

  // Calls visit(offset in the plane, weight) for every tap that counts.
  template <class F>
  void ForEach(F&& visit) const {
    ForEachBehind(first_, 0, 1, visit);
  }

 private:
  template <class F>
  void ForEachBehind(size_t axis, int64_t offset, double weight,
                     F& visit) const {
    if (axis == plan_.rank) return visit(offset, weight);
    const int64_t count = table_.count(axis);
    for (int64_t k = 0; k < count; ++k) {
      if (weights_[axis][k] == 0) continue;
      ForEachBehind(axis + 1, offset + positions_[axis][k] * strides_[axis],
                    weight * weights_[axis][k], visit);
    }
  }

  const ResizePlan& plan_;
  const ResizeTable& table_;
  const size_t first_;
  Dims strides_ = {};
  const int64_t* positions_[Shape::kMaxRank] = {};
  const double* weights_[Shape::kMaxRank] = {};
};

struct PlaneSizes {
  int64_t planes = 1, input = 1, output = 1;
};

PlaneSizes SizesOf(const ResizePlan& plan) {
  PlaneSizes s;
  for (size_t i = 0; i < plan.rank; ++i) {
    if (i < plan.KeptAxes()) {
      s.planes *= plan.axes[i].input;
    } else {
      s.input *= plan.axes[i].input;
      s.output *= plan.axes[i].output;
    }
  }
  return s;
}

double CostOf(const ResizePlan& plan) {
  double taps = 1;
  for (size_t i = 0; i < plan.rank; ++i) {
    taps *= static_cast<double>(plan.TapCount(i));
  }
  return 20 + 5 * taps;
}

// --- Kernels

template <class T>
void Interpolate(const KernelContext& c, const ResizePlan& plan) {
  if (c.output(0).element_count() == 0) return;
  const PlaneSizes s = SizesOf(plan);
  const ResizeTable table(plan, c.scratch());
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const T outside = RoundedFromDouble<T>(plan.extrapolation);
  const bool nearest = plan.mode == ResizeMode::kNearest;
  c.ParallelFor(s.planes * s.output, CostOf(plan),
                [&](int64_t begin, int64_t end) {
                  Taps taps(plan, table);
                  for (int64_t i = begin; i < end; ++i) {
                    const T* plane = x + i / s.output * s.input;
                    if (!taps.MoveTo(i % s.output)) {
                      y[i] = outside;
                    } else if (nearest) {
                      y[i] = plane[taps.Offset()];
                    } else {
                      double sum = 0;
                      taps.ForEach([&](int64_t at, double weight) {
                        sum += weight * static_cast<double>(plane[at]);
                      });
                      y[i] = RoundedFromDouble<T>(sum);
                    }
                  }
                });
}

template <MakePlan<KernelContext> make_plan>
constexpr ReferenceKernel ResizeKernel() {
  return Instantiate<ResizeTypes>(
      []<class T>(const KernelContext& c) { Interpolate<T>(c, make_plan(c)); },
      ForwardScratch);
}

// Every element of dY goes where the output was taken from, with the same
// weights.
template <class T>
void Spread(const KernelContext& c, const ResizePlan& plan) {
  const PlaneSizes s = SizesOf(plan);
  const ResizeTable table(plan, c.scratch());
  const T* dy = c.in<T>(0).data();
  T* dx = c.out<T>(0).data();
  c.ParallelFor(s.planes, CostOf(plan) * static_cast<double>(s.output),
                [&](int64_t begin, int64_t end) {
                  Taps taps(plan, table);
                  for (int64_t n = begin; n < end; ++n) {
                    T* plane = dx + n * s.input;
                    std::fill_n(plane, s.input, T{0});
                    for (int64_t o = 0; o < s.output; ++o) {
                      if (!taps.MoveTo(o)) continue;
                      const double slope =
                          static_cast<double>(dy[n * s.output + o]);
                      taps.ForEach([&](int64_t at, double weight) {
                        plane[at] += static_cast<T>(weight * slope);
                      });
                    }
                  }
                });
}

template <MakePlan<KernelContext> make_plan>
constexpr ReferenceKernel GradKernel() {
  return Instantiate<Floats>(
      []<class T>(const KernelContext& c) {
        if (c.input(0).element_count() == 0) return FillZero(c.output(0));
        Spread<T>(c, make_plan(c));
      },
      GradScratch);
}

// --- Gradients

// ONNX Runtime's op is there for scales and mode linear alone.
void Resize11Gradient(GradientContext& c) {
  const bool linear = c.node().String("mode", "nearest") == "linear" &&
                      c.has_input(2) && !c.has_input(3) &&
                      c.node().Int("antialias", 0) == 0;
  c.Set(0, c.build().Op("ResizeGrad", {c.dy(), c.x(0), c.x(1), c.x(2), c.x(3)},
                        c.attributes(), linear ? kMicrosoft : kStrop));
}

void UpsampleGradient(GradientContext& c, Var scales, bool shrinks_up) {
  c.Set(0,
        c.build().Op("UpsampleGrad", {c.dy(), c.x(0), scales},
                     {{"mode", std::string(c.node().String("mode", "nearest"))},
                      {"shrinks_up", int64_t{shrinks_up}}},
                     kStrop));
}

void Upsample1Gradient(GradientContext& c) {
  const OwnedTensor scales(DataType::kFloat32, {4});
  const auto values = scales.view().values<float>();
  values[0] = values[1] = 1;
  values[2] = c.node().Float("height_scale", 1);
  values[3] = c.node().Float("width_scale", 1);
  UpsampleGradient(c, c.build().Constant("scales", scales.view()), false);
}

void Upsample7Gradient(GradientContext& c) {
  UpsampleGradient(c, c.x(1), false);
}

void Resize10Gradient(GradientContext& c) { UpsampleGradient(c, c.x(1), true); }

}  // namespace

extern constexpr OpDef kUpsample1 = {
    .name = "Upsample",
    .infer = InferResize<PlanUpsample1<InferContext>>,
    .reference = ResizeKernel<PlanUpsample1<KernelContext>>(),
    .gradient = Rule(Upsample1Gradient)};

extern constexpr OpDef kUpsample7 = {
    .name = "Upsample",
    .since = 7,
    .inputs = {2, 2},
    .infer = InferResize<PlanUpsample<InferContext, NearestMode::kFloor>>,
    .reference =
        ResizeKernel<PlanUpsample<KernelContext, NearestMode::kFloor>>(),
    .value_inputs = {1},
    .gradient = Rule(Upsample7Gradient),
    .stops_gradient = {1}};

extern constexpr OpDef kResize10 = {
    .name = "Resize",
    .since = 10,
    .inputs = {2, 2},
    .infer = InferResize<PlanUpsample<InferContext, NearestMode::kSimple>>,
    .reference =
        ResizeKernel<PlanUpsample<KernelContext, NearestMode::kSimple>>(),
    .value_inputs = {1},
    .gradient = Rule(Resize10Gradient),
    .stops_gradient = {1}};

extern constexpr OpDef kResize11 = {
    .name = "Resize",
    .since = 11,
    .inputs = {1, 4},
    .infer = InferResize<Plan11<InferContext>>,
    .reference = ResizeKernel<Plan11<KernelContext>>(),
    .value_inputs = {1, 2, 3},
    .gradient = Rule(Resize11Gradient),
    .stops_gradient = {1, 2, 3}};

namespace {

constexpr OpDef ResizeGradIn(std::string_view domain) {
  return {.name = "ResizeGrad",
          .domain = domain,
          .inputs = {2, 5},
          .infer = InferGrad<PlanGrad<InferContext>>,
          .reference = GradKernel<PlanGrad<KernelContext>>(),
          .value_inputs = {2, 3, 4},
          .shape_inputs = {1},
          .stops_gradient = {1, 2, 3, 4}};
}

}  // namespace

// ONNX Runtime's op has no sizes.
extern constexpr OpDef kResizeGrad = ResizeGradIn(kMicrosoft);

// dY, X (of which the shape is read), roi, scales, sizes, the last three
// optional -> dX; the attributes of Resize. For what ONNX Runtime's op does
// not do.
extern constexpr OpDef kStropResizeGrad = ResizeGradIn(kStrop);

// dY, X (of which the shape is read), scales -> dX. Attributes: mode (nearest
// or linear), shrinks_up (0).
extern constexpr OpDef kUpsampleGrad = {
    .name = "UpsampleGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .infer = InferGrad<PlanUpsampleGrad<InferContext>>,
    .reference = GradKernel<PlanUpsampleGrad<KernelContext>>(),
    .value_inputs = {2},
    .shape_inputs = {1},
    .stops_gradient = {1, 2}};

}  // namespace strop::ops
