// SPDX-License-Identifier: Apache-2.0
//
// GridSample: reads an image at positions that a grid tells; AffineGrid, which
// makes such grids; and their gradients. Positions are normalized: -1 and 1 are
// the centers of the corner cells (align_corners) or their outer edges.
#include <cmath>
#include <string_view>

#include "ops/gradient.h"
#include "ops/nn/cubic.h"
#include "ops/number.h"

namespace strop::ops {
namespace {

constexpr size_t kMaxAxes = Shape::kMaxRank - 2;

enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

struct GridSampling {
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
  size_t rank = 0;  // spatial axes
  int64_t input[kMaxAxes] = {};
};

// Until opset 19 the modes are called bilinear and bicubic.
GridSampling ReadSampling(const OpNode& node, const Shape& x) {
  GridSampling s;
  const std::string_view mode = node.String("mode", "linear");
  const std::string_view padding = node.String("padding_mode", "zeros");
  if (mode == "nearest") {
    s.mode = Mode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    s.mode = Mode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    Fail(node, "attribute mode is \"{}\"", mode);
  }
  if (padding == "border") {
    s.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    s.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    Fail(node, "attribute padding_mode is \"{}\"", padding);
  }
  s.align_corners = node.Int("align_corners", 0) != 0;
  s.rank = x.rank() - 2;
  for (size_t i = 0; i < s.rank; ++i) s.input[i] = x[i + 2];
  return s;
}

// Inputs i, X (N, C, in...), and i + 1, the grid (N, out..., number of spatial
// axes) -> the shape of Y
Shape SampledShape(const InferContext& c, size_t i) {
  const Shape& x = c.input(i).shape;
  const Shape& grid = c.input(i + 1).shape;
  if (x.rank() < 3 || grid.rank() != x.rank() || grid[0] != x[0] ||
      grid[grid.rank() - 1] != static_cast<int64_t>(x.rank() - 2)) {
    Fail(c.node(), "the grid {} does not fit the input {}", grid.ToString(),
         x.ToString());
  }
  RequireFloat(c, i + 1);
  const GridSampling s = ReadSampling(c.node(), x);
  Dims dims = {x[0], x[1]};
  for (size_t i = 0; i < s.rank; ++i) dims[i + 2] = grid[i + 1];
  const Shape y({dims.data(), x.rank()});
  if (x.element_count() == 0 && y.element_count() != 0 &&
      s.padding != Padding::kZeros) {
    Fail(c.node(), "{} has no border", x.ToString());
  }
  return y;
}

void InferGridSample(InferContext& c) {
  c.SetOutput(0, c.input(0).type, SampledShape(c, 0));
}

// dY, X, grid -> dX, dgrid
void InferGridSampleGrad(InferContext& c) {
  RequireFloat(c, 0);
  RequireFloat(c, 1);
  RequireShape(c, 0, SampledShape(c, 1));
  for (size_t i = 0; i < c.output_count(); ++i)
    c.SetOutput(i, c.input(i + 1).type, c.input(i + 1).shape);
}

// In the grid's own type, as others do it, for the sake of nearest cells.
template <class T>
T Denormalize(T position, int64_t size, bool align_corners) {
  return align_corners ? (position + 1) / 2 * static_cast<T>(size - 1)
                       : ((position + 1) * static_cast<T>(size) - 1) / 2;
}

double ReadPosition(const GridSampling& s, const Tensor& grid, int64_t i,
                    int64_t size) {
  const double x =
      grid.type() == DataType::kFloat32
          ? static_cast<double>(
                Denormalize(grid.values<float>()[static_cast<size_t>(i)], size,
                            s.align_corners))
          : Denormalize(grid.values<double>()[static_cast<size_t>(i)], size,
                        s.align_corners);
  return std::isfinite(x) ? x : -100;  // outside
}

// A position, and how it moves with the one that it was made of.
struct Place {
  double x, slope = 1;
};

// Mirrors x at low and high until it lies between.
Place Reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return {low, 0};
  double slope = x < low ? -1 : 1;
  double distance = std::fmod(std::abs(x - low), 2 * range);
  if (distance > range) {
    distance = 2 * range - distance;
    slope = -slope;
  }
  return {low + distance, slope};
}

Place ReflectIn(const GridSampling& s, double x, int64_t size) {
  const double half = s.align_corners ? 0 : 0.5;
  return Reflect(x, -half, static_cast<double>(size - 1) + half);
}

// The padding applied to a position between cells. Mode cubic lets positions
// pass the border: each of its cells is padded for itself.
Place PadPosition(const GridSampling& s, double x, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const double half = s.align_corners ? 0 : 0.5;
  if (x < -half || x > last + half) {
    if (s.padding == Padding::kReflection) return ReflectIn(s, x, size);
    if (s.padding == Padding::kBorder && s.mode != Mode::kCubic)
      return {std::clamp(x, 0.0, last), 0};
  }
  // What is this far outside reads nothing; casts are safe then.
  if (x < -16) return {-16, 0};
  if (x > last + 16) return {last + 16, 0};
  return {x};
}

// The cell that stands in for cell i; -1: zero.
int64_t PadCell(const GridSampling& s, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  switch (s.padding) {
    case Padding::kZeros:
      return -1;
    case Padding::kBorder:
      return i < 0 ? 0 : size - 1;
    case Padding::kReflection:
      return std::clamp<int64_t>(
          static_cast<int64_t>(ReflectIn(s, static_cast<double>(i), size).x), 0,
          size - 1);
  }
  return -1;
}

// Cells along one axis, their weights, and the derivatives of these by the
// position.
struct Taps {
  int count = 0;
  int64_t cells[4] = {};
  double weights[4] = {}, slopes[4] = {};
};

Taps TapsAt(const GridSampling& s, double x, int64_t size) {
  // Halves go to the even cell.
  if (s.mode == Mode::kNearest) x = std::nearbyint(x);
  const Place place = PadPosition(s, x, size);
  x = place.x;
  Taps taps;
  const double floor = std::floor(x);
  int64_t first = static_cast<int64_t>(floor);
  const double fraction = x - floor;
  if (s.mode == Mode::kNearest) {
    // A reflection may end between cells; the fraction is cut.
    first = static_cast<int64_t>(x);
    taps.count = 1;
    taps.weights[0] = 1;
  } else if (s.mode == Mode::kLinear) {
    taps.count = 2;
    taps.weights[0] = 1 - fraction;
    taps.weights[1] = fraction;
    taps.slopes[0] = -place.slope;
    taps.slopes[1] = place.slope;
  } else {
    constexpr double a = -0.75;
    taps.count = 4;
    --first;
    for (int k = 0; k < 4; ++k) {
      const double from_tap = fraction + 1 - k;
      taps.weights[k] = Cubic(std::abs(from_tap), a);
      taps.slopes[k] = place.slope * std::copysign(1, from_tap) *
                       CubicSlope(std::abs(from_tap), a);
    }
  }
  for (int k = 0; k < taps.count; ++k) {
    taps.cells[k] = PadCell(s, first + k, size);
  }
  return taps;
}

template <class T>
double Sample(const GridSampling& s, const Taps* taps, size_t axis,
              int64_t offset, const T* plane) {
  double sum = 0;
  for (int k = 0; k < taps[axis].count; ++k) {
    const int64_t cell = taps[axis].cells[k];
    if (cell < 0) continue;
    const int64_t at = offset * s.input[axis] + cell;
    const double value = axis + 1 == s.rank
                             ? static_cast<double>(plane[at])
                             : Sample(s, taps, axis + 1, at, plane);
    sum += taps[axis].weights[k] * value;
  }
  return sum;
}

// Mode nearest moves elements; 64-bit integers are no doubles.
template <class T>
T CellAt(const GridSampling& s, const Taps* taps, const T* plane) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < s.rank; ++axis) {
    if (taps[axis].cells[0] < 0) return T{0};
    offset = offset * s.input[axis] + taps[axis].cells[0];
  }
  return plane[offset];
}

// The taps along all axes for position i of the grid.
void SetTaps(const GridSampling& s, const Tensor& grid, int64_t i, Taps* taps) {
  const int64_t rank = static_cast<int64_t>(s.rank);
  for (int64_t axis = 0; axis < rank; ++axis) {
    // The grid names the last axis first.
    const int64_t size = s.input[axis];
    const double at = ReadPosition(s, grid, i * rank + rank - 1 - axis, size);
    taps[axis] = TapsAt(s, at, size);
  }
}

template <class T>
void GridSample(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Tensor& grid = c.input(1);
  const GridSampling s = ReadSampling(c.node(), x_shape);
  const int64_t channels = x_shape[1];
  const int64_t in = x_shape.element_count(2, x_shape.rank());
  const int64_t out =
      c.output(0).shape().element_count(2, c.output(0).shape().rank());
  const int64_t rank = static_cast<int64_t>(s.rank);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const auto run = [&](int64_t i) {
    Taps taps[kMaxAxes];
    SetTaps(s, grid, i, taps);
    const int64_t sample = i / out;
    for (int64_t k = sample * channels; k < (sample + 1) * channels; ++k) {
      const T* plane = x + k * in;
      y[k * out + i % out] = s.mode == Mode::kNearest
                                 ? CellAt(s, taps, plane)
                                 : FromDouble<T>(Sample(s, taps, 0, 0, plane));
    }
  };
  const double taps = std::pow(s.mode == Mode::kCubic ? 4 : 2, rank);
  c.ParallelFor(c.output(0).element_count() == 0 ? 0 : x_shape[0] * out,
                50 + 3 * taps * static_cast<double>(channels),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

// One cell that a position reads: its offset in a plane, its weight, and the
// derivatives of the weight by the position along each axis.
struct WeightedCell {
  int64_t offset = 0;
  double weight = 1;
  double slopes[kMaxAxes] = {};
};

template <class F>
void ForEachCell(const GridSampling& s, const Taps* taps, size_t axis,
                 const WeightedCell& so_far, F& visit) {
  if (axis == s.rank) return visit(so_far);
  for (int k = 0; k < taps[axis].count; ++k) {
    if (taps[axis].cells[k] < 0) continue;
    WeightedCell cell = so_far;
    cell.offset = so_far.offset * s.input[axis] + taps[axis].cells[k];
    cell.weight *= taps[axis].weights[k];
    for (size_t i = 0; i < axis; ++i) cell.slopes[i] *= taps[axis].weights[k];
    cell.slopes[axis] = so_far.weight * taps[axis].slopes[k];
    ForEachCell(s, taps, axis + 1, cell, visit);
  }
}

// dX of one sample gets dY where it was read, with the same weights; dgrid
// the sum over channels of dY times the slope of what was read.
template <class T>
class GridSampleGrad {
 public:
  explicit GridSampleGrad(const KernelContext& c)
      : c_(c),
        s_(ReadSampling(c.node(), c.input(1).shape())),
        channels_(c.input(1).shape()[1]),
        in_(c.input(1).shape().element_count(2, s_.rank + 2)),
        out_(c.input(0).shape().element_count(2, s_.rank + 2)) {}

  void Run() const {
    for (size_t i = 0; i < 2; ++i)
      if (c_.has_output(i)) FillZero(c_.output(i));
    if (c_.input(0).element_count() == 0) return;
    c_.ParallelFor(c_.input(1).shape()[0],
                   static_cast<double>(out_ * channels_) * 50,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin * out_; i < end * out_; ++i)
                       RunPosition(i);
                   });
  }

 private:
  void RunPosition(int64_t i) const {
    Taps taps[kMaxAxes];
    SetTaps(s_, c_.input(2), i, taps);
    const int64_t sample = i / out_ * channels_;
    const T* dy = c_.in<T>(0).data() + sample * out_ + i % out_;
    const T* x = c_.in<T>(1).data() + sample * in_;
    T* dx = c_.has_output(0) ? c_.out<T>(0).data() + sample * in_ : nullptr;
    double moved[kMaxAxes] = {};
    const auto visit = [&](const WeightedCell& cell) {
      double along = 0;
      for (int64_t k = 0; k < channels_; ++k) {
        const double slope = static_cast<double>(dy[k * out_]);
        const int64_t at = k * in_ + cell.offset;
        along += slope * static_cast<double>(x[at]);
        if (dx) dx[at] += static_cast<T>(cell.weight * slope);
      }
      for (size_t axis = 0; axis < s_.rank; ++axis)
        moved[axis] += cell.slopes[axis] * along;
    };
    ForEachCell(s_, taps, 0, {}, visit);
    if (c_.has_output(1)) SetGridGradient(i, moved);
  }

  void SetGridGradient(int64_t i, const double* moved) const {
    const int64_t rank = static_cast<int64_t>(s_.rank);
    for (int64_t axis = 0; axis < rank; ++axis) {
      const int64_t at = i * rank + rank - 1 - axis;
      const double size =
          static_cast<double>(s_.input[axis] - (s_.align_corners ? 1 : 0));
      if (std::isfinite(c_.in<T>(2)[static_cast<size_t>(at)]))
        c_.out<T>(1)[static_cast<size_t>(at)] =
            static_cast<T>(moved[axis] * size / 2);
    }
  }

  const KernelContext& c_;
  const GridSampling s_;
  const int64_t channels_, in_, out_;
};

// --- AffineGrid

// theta (N, r, r + 1), size (N, C, out...) -> (N, out..., r)
void InferAffineGrid(InferContext& c) {
  const Shape& theta = c.input(0).shape;
  RequireIndices(c, 1);
  const std::vector<int64_t> size = c.IntValues(1);
  if (size.size() != 4 && size.size() != 5) {
    Fail(c.node(),
         "wants the size of a batch of planes or volumes, not {} "
         "numbers",
         size.size());
  }
  const int64_t rank = static_cast<int64_t>(size.size()) - 2;
  if (theta != Shape({size[0], rank, rank + 1})) {
    Fail(c.node(), "theta must have the shape ({}, {}, {}), not {}", size[0],
         rank, rank + 1, theta.ToString());
  }
  std::vector<int64_t> dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(rank);
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// The normalized position of cell i.
double Normalized(int64_t i, int64_t size, bool align_corners) {
  const double n = static_cast<double>(size);
  if (!align_corners) return (2 * static_cast<double>(i) + 1) / n - 1;
  return size == 1 ? 0 : 2 * static_cast<double>(i) / (n - 1) - 1;
}

// (x, y, (z,) 1) of cell i of a grid (N, out..., r).
struct HomogeneousPosition {
  double numbers[4] = {};

  HomogeneousPosition(const Shape& grid, int64_t i, bool align_corners) {
    const size_t rank = grid.rank() - 2;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t size = grid[axis + 1];
      numbers[rank - 1 - axis] = Normalized(i % size, size, align_corners);
      i /= size;
    }
    numbers[rank] = 1;
  }
};

// grid = theta (x, y, (z,) 1)
template <class T>
void AffineGrid(const KernelContext& c) {
  const Shape& shape = c.output(0).shape();
  const size_t rank = shape.rank() - 2;
  const bool align_corners = c.node().Int("align_corners", 0) != 0;
  const int64_t cells = shape.element_count(1, rank + 1);
  const T* theta = c.in<T>(0).data();
  T* grid = c.out<T>(0).data();
  const auto run = [&](int64_t i) {
    const HomogeneousPosition at(shape, i % cells, align_corners);
    const T* matrix =
        theta + i / cells * static_cast<int64_t>(rank * (rank + 1));
    for (size_t row = 0; row < rank; ++row) {
      double sum = 0;
      for (size_t k = 0; k <= rank; ++k) {
        sum +=
            static_cast<double>(matrix[row * (rank + 1) + k]) * at.numbers[k];
      }
      grid[i * static_cast<int64_t>(rank) + static_cast<int64_t>(row)] =
          static_cast<T>(sum);
    }
  };
  c.ParallelFor(shape[0] * cells, 20, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(i);
  });
}

// dgrid (N, out..., r) -> dtheta (N, r, r + 1)
void InferAffineGridGrad(InferContext& c) {
  const Shape& grid = c.input(0).shape;
  const bool fits = grid.rank() == 4 || grid.rank() == 5;
  const int64_t rank = static_cast<int64_t>(grid.rank()) - 2;
  if (!fits || grid[grid.rank() - 1] != rank) {
    Fail(c.node(), "{} is no grid of planes or volumes", grid.ToString());
  }
  c.SetOutput(0, c.input(0).type, {grid[0], rank, rank + 1});
}

// dtheta = sum over cells of dgrid (x, y, (z,) 1)'
template <class T>
void AffineGridGrad(const KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  const size_t rank = shape.rank() - 2;
  const bool align_corners = c.node().Int("align_corners", 0) != 0;
  const int64_t cells = shape.element_count(1, rank + 1);
  const T* dgrid = c.in<T>(0).data();
  T* dtheta = c.out<T>(0).data();
  const auto run = [&](int64_t sample) {
    double sums[12] = {};
    for (int64_t i = 0; i < cells; ++i) {
      const HomogeneousPosition at(shape, i, align_corners);
      const T* slope =
          dgrid + (sample * cells + i) * static_cast<int64_t>(rank);
      for (size_t row = 0; row < rank; ++row)
        for (size_t k = 0; k <= rank; ++k)
          sums[row * (rank + 1) + k] +=
              static_cast<double>(slope[row]) * at.numbers[k];
    }
    const size_t numbers = rank * (rank + 1);
    for (size_t k = 0; k < numbers; ++k)
      dtheta[static_cast<size_t>(sample) * numbers + k] =
          static_cast<T>(sums[k]);
  };
  c.ParallelFor(shape[0], 30 * static_cast<double>(cells),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

// --- Gradients

void GridSampleGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  DataType types[2];
  for (size_t i = 0; i < 2; ++i)
    types[i] = c.needs(i) ? b.type(c.x(i)) : DataType::kUndefined;
  const Var inputs[] = {c.dy(), c.x(0), c.x(1)};
  const auto gradients =
      b.Ops("GridSampleGrad", inputs, types, c.attributes(), kStrop);
  for (size_t i = 0; i < 2; ++i) c.Set(i, gradients[i]);
}

void AffineGridGradient(GradientContext& c) {
  c.Set(0, c.build().Op("AffineGridGrad", {c.dy()}, c.attributes(), kStrop));
}

}  // namespace

extern constexpr OpDef kGridSample = {
    .name = "GridSample",
    .since = 16,
    .inputs = {2, 2},
    .infer = InferGridSample,
    .reference = Instantiate<NumbersAndBools>(
        []<class T>(const KernelContext& c) { GridSample<T>(c); }),
    .gradient = Rule(GridSampleGradient),
    .mixes_floats = true};

// dY, X, grid -> dX, dgrid, each optional; the attributes of GridSample.
extern constexpr OpDef kGridSampleGrad = {
    .name = "GridSampleGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .outputs = {0, 2},
    .infer = InferGridSampleGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { GridSampleGrad<T>(c).Run(); }),
    .mixes_floats = true};

extern constexpr OpDef kAffineGrid = {
    .name = "AffineGrid",
    .since = 20,
    .inputs = {2, 2},
    .infer = InferAffineGrid,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { AffineGrid<T>(c); }),
    .value_inputs = {1},
    .gradient = Rule(AffineGridGradient),
    .stops_gradient = {1}};

// dgrid -> dtheta; the attributes of AffineGrid.
extern constexpr OpDef kAffineGridGrad = {
    .name = "AffineGridGrad",
    .domain = kStrop,
    .infer = InferAffineGridGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { AffineGridGrad<T>(c); })};

}  // namespace strop::ops
