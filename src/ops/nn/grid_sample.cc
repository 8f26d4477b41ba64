// SPDX-License-Identifier: Apache-2.0
//
// GridSample: reads an image at positions that a grid tells; and AffineGrid,
// which makes such grids. Positions are normalized: -1 and 1 are the centers
// of the corner cells (align_corners) or their outer edges.
#include <cmath>
#include <string_view>

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

// X (N, C, in...), grid (N, out..., number of spatial axes)
void InferGridSample(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const Shape& grid = c.input(1).shape;
  if (x.rank() < 3 || grid.rank() != x.rank() || grid[0] != x[0] ||
      grid[grid.rank() - 1] != static_cast<int64_t>(x.rank() - 2)) {
    Fail(c.node(), "the grid {} does not fit the input {}", grid.ToString(),
         x.ToString());
  }
  RequireFloat(c, 1);
  const GridSampling s = ReadSampling(c.node(), x);
  Dims dims = {x[0], x[1]};
  for (size_t i = 0; i < s.rank; ++i) dims[i + 2] = grid[i + 1];
  const Shape y({dims.data(), x.rank()});
  if (x.element_count() == 0 && y.element_count() != 0 &&
      s.padding != Padding::kZeros) {
    Fail(c.node(), "{} has no border", x.ToString());
  }
  c.SetOutput(0, c.input(0).type, y);
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

// Mirrors x at low and high until it lies between.
double Reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  double distance = std::fmod(std::abs(x - low), 2 * range);
  if (distance > range) distance = 2 * range - distance;
  return low + distance;
}

double ReflectIn(const GridSampling& s, double x, int64_t size) {
  const double half = s.align_corners ? 0 : 0.5;
  return Reflect(x, -half, static_cast<double>(size - 1) + half);
}

// The padding applied to a position between cells. Mode cubic lets positions
// pass the border: each of its cells is padded for itself.
double PadPosition(const GridSampling& s, double x, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const double half = s.align_corners ? 0 : 0.5;
  if (x < -half || x > last + half) {
    if (s.padding == Padding::kBorder && s.mode != Mode::kCubic) {
      x = std::clamp(x, 0.0, last);
    }
    if (s.padding == Padding::kReflection) x = ReflectIn(s, x, size);
  }
  // What is this far outside reads nothing; casts are safe then.
  return std::clamp(x, -16.0, last + 16);
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
          static_cast<int64_t>(ReflectIn(s, static_cast<double>(i), size)), 0,
          size - 1);
  }
  return -1;
}

// Cells along one axis and their weights.
struct Taps {
  int count = 0;
  int64_t cells[4] = {};
  double weights[4] = {};
};

Taps TapsAt(const GridSampling& s, double x, int64_t size) {
  // Halves go to the even cell.
  if (s.mode == Mode::kNearest) x = std::nearbyint(x);
  x = PadPosition(s, x, size);
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
  } else {
    constexpr double a = -0.75;
    taps.count = 4;
    --first;
    for (int k = 0; k < 4; ++k) {
      taps.weights[k] = Cubic(std::abs(fraction + 1 - k), a);
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
    for (int64_t axis = 0; axis < rank; ++axis) {
      // The grid names the last axis first.
      const int64_t size = s.input[axis];
      const double at = ReadPosition(s, grid, i * rank + rank - 1 - axis, size);
      taps[axis] = TapsAt(s, at, size);
    }
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
    double position[4] = {};
    int64_t rest = i % cells;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t size = shape[axis + 1];
      position[rank - 1 - axis] = Normalized(rest % size, size, align_corners);
      rest /= size;
    }
    position[rank] = 1;
    const T* matrix =
        theta + i / cells * static_cast<int64_t>(rank * (rank + 1));
    for (size_t row = 0; row < rank; ++row) {
      double sum = 0;
      for (size_t k = 0; k <= rank; ++k) {
        sum += static_cast<double>(matrix[row * (rank + 1) + k]) * position[k];
      }
      grid[i * static_cast<int64_t>(rank) + static_cast<int64_t>(row)] =
          static_cast<T>(sum);
    }
  };
  c.ParallelFor(shape[0] * cells, 20, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(i);
  });
}

}  // namespace

extern constexpr OpDef kGridSample = {
    .name = "GridSample",
    .since = 16,
    .inputs = {2, 2},
    .infer = InferGridSample,
    .reference = Instantiate<NumbersAndBools>(
        []<class T>(const KernelContext& c) { GridSample<T>(c); }),
    .mixes_floats = true};

extern constexpr OpDef kAffineGrid = {
    .name = "AffineGrid",
    .since = 20,
    .inputs = {2, 2},
    .infer = InferAffineGrid,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { AffineGrid<T>(c); }),
    .value_inputs = {1},
    .stops_gradient = {1}};

}  // namespace strop::ops
