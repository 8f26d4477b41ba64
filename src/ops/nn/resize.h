// SPDX-License-Identifier: Apache-2.0
//
// How Resize, Upsample and ResizeGrad map outputs to inputs. Along every
// axis an output position is a weighted sum of a few input positions; the
// weights of an element are the products over its axes. The gradient spreads
// with the same weights.
#pragma once

#include "ops/op_util.h"

namespace strop::ops {

enum class ResizeMode { kNearest, kLinear, kCubic };

// Where an output position lies in the input.
enum class ResizeCoordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize
};

// Which of two input positions is the nearest.
enum class NearestMode {
  kRoundPreferFloor,
  kRoundPreferCeil,
  kFloor,
  kCeil,
  kSimple  // opset 10: floor, or ceil where the axis shrinks
};

struct ResizeAxis {
  int64_t input = 0, output = 0;
  double scale = 1;
  // The exact, perhaps fractional, size of the output.
  double length = 0;
  double start = 0, end = 1;  // region of interest
};

// A Resize-like node with all its attributes and shapes.
struct ResizePlan {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75, extrapolation = 0;
  size_t rank = 0;
  ResizeAxis axes[Shape::kMaxRank];

  // Input positions that an output position along `axis` is made of. Their
  // number is the same for all outputs.
  int64_t TapCount(size_t axis) const;
  // Leading axes that keep their size and all their elements.
  size_t KeptAxes() const;
  Shape OutputShape() const;
};

// Inputs of a Resize node that tell its size; absent ones are null or empty.
struct ResizeInputs {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

// The plan of a Resize node from opset 11 on. For a gradient, `output` is the
// known shape of the output; it stands in for sizes that are not given.
// Throws when anything does not fit.
ResizePlan ReadResize(const OpNode& node, const Shape& x,
                      const ResizeInputs& inputs,
                      const Shape* output = nullptr);

// The plan of Upsample and of Resize in opset 10: scales, and the modes
// nearest and linear only.
ResizePlan ReadUpsample(const OpNode& node, const Shape& x,
                        std::span<const float> scales, NearestMode nearest);

// The taps of all positions along all axes, in memory that the caller has.
class ResizeTable {
 public:
  // What any plan of the node with these shapes needs at most; none is
  // needed for an output without elements.
  static size_t Bytes(const OpNode& node, const Shape& x, const Shape& y);
  // Fills `memory`, Bytes() long and aligned for double.
  ResizeTable(const ResizePlan& plan, std::byte* memory);

  int64_t count(size_t axis) const { return axes_[axis].count; }
  // The tap positions and weights of output position o; null where the
  // position lies outside the region that the op extrapolates.
  const int64_t* positions(size_t axis, int64_t o) const {
    const Axis& a = axes_[axis];
    return a.positions[o * a.count] < 0 ? nullptr : a.positions + o * a.count;
  }
  const double* weights(size_t axis, int64_t o) const {
    return axes_[axis].weights + o * axes_[axis].count;
  }

 private:
  struct Axis {
    int64_t count = 1;
    int64_t* positions = nullptr;
    double* weights = nullptr;
  };
  Axis axes_[Shape::kMaxRank];
};

}  // namespace strop::ops
