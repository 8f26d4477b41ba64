// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign and MaxRoiPool: a grid of cells is laid over regions of interest,
// each cell takes the mean or maximum of what lies in it.
#include <cmath>
#include <string_view>

#include "ops/op_util.h"

namespace strop::ops {
namespace {

void RequirePlanes(const InferContext& c) {
  if (c.input(0).shape.rank() != 4) {
    Fail(c.node(), "wants (batch, channels, height, width), not the shape {}",
         c.input(0).shape.ToString());
  }
}

// The region inputs have `columns` numbers per region; the output shape.
void InferRegions(InferContext& c, int64_t columns, int64_t height,
                  int64_t width) {
  const Shape& x = c.input(0).shape;
  const Shape& rois = c.input(1).shape;
  RequireSameType(c, 0, 1);
  if (rois.rank() != 2 || rois[1] != columns) {
    Fail(c.node(), "wants {} numbers per region, not the shape {}", columns,
         rois.ToString());
  }
  constexpr int64_t kMost = int64_t{1} << 20;
  if (std::min(height, width) < 1 || std::max(height, width) > kMost) {
    Fail(c.node(), "cannot pool to {} x {} cells", height, width);
  }
  c.SetOutput(0, c.input(0).type, {rois[0], x[1], height, width});
}

int64_t RequireBatch(const KernelContext& c, int64_t index) {
  const int64_t batch = c.input(0).shape()[0];
  if (index < 0 || index >= batch) {
    Fail(c.node(), "a region of sample {} in a batch of {}", index, batch);
  }
  return index;
}

// Far above any image, far below where sums lose whole cells.
double RequireBounded(const OpNode& node, double x) {
  if (!(std::abs(x) < 0x1p48)) Fail(node, "a region reaches to {}", x);
  return x;
}

// --- RoiAlign

struct AlignSettings {
  bool maximum, half_pixel;
  int64_t height, width, sampling_ratio;
  double scale;
};

// Opset 10 has no coordinate_transformation_mode and shifts nothing.
template <bool old>
AlignSettings ReadAlign(const OpNode& node) {
  const std::string_view mode = node.String("mode", "avg");
  const std::string_view coordinates =
      node.String("coordinate_transformation_mode",
                  old ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") {
    Fail(node, "attribute mode is \"{}\", neither avg nor max", mode);
  }
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    Fail(node, "attribute coordinate_transformation_mode is \"{}\"",
         coordinates);
  }
  const int64_t ratio = node.Int("sampling_ratio", 0);
  if (ratio < 0 || ratio > 1024) {
    Fail(node, "attribute sampling_ratio is {}", ratio);
  }
  return {.maximum = mode == "max",
          .half_pixel = coordinates == "half_pixel",
          .height = node.Int("output_height", 1),
          .width = node.Int("output_width", 1),
          .sampling_ratio = ratio,
          .scale = static_cast<double>(node.Float("spatial_scale", 1))};
}

// X, regions (x1, y1, x2, y2), indices of their samples
template <bool old>
void InferRoiAlign(InferContext& c) {
  RequirePlanes(c);
  const AlignSettings s = ReadAlign<old>(c.node());
  InferRegions(c, 4, s.height, s.width);
  // Minutes of work from a few bytes are a mistake.
  constexpr double kMostSamples = 1e10;
  const double samples = static_cast<double>(c.input(1).shape[0]) *
                         static_cast<double>(c.input(0).shape[1]) *
                         static_cast<double>(s.height * s.sampling_ratio) *
                         static_cast<double>(s.width * s.sampling_ratio);
  if (samples > kMostSamples) {
    Fail(c.node(), "sampling_ratio {} takes {} samples", s.sampling_ratio,
         samples);
  }
  RequireType(c, 2, DataType::kInt64);
  RequireShape(c, 2, {c.input(1).shape[0]});
}

// Sampling points along one axis of a region.
struct SamplingAxis {
  double start, bin, points;  // points per bin
  int64_t size;               // of the image

  SamplingAxis(const OpNode& node, const AlignSettings& s, double from,
               double to, int64_t bins, int64_t image)
      : size(image) {
    const double offset = s.half_pixel ? 0.5 : 0;
    start = RequireBounded(node, from * s.scale - offset);
    double length = RequireBounded(node, to * s.scale - offset) - start;
    if (!s.half_pixel) length = std::max(length, 1.0);
    bin = length / static_cast<double>(bins);
    points = s.sampling_ratio > 0 ? static_cast<double>(s.sampling_ratio)
                                  : std::max(0.0, std::ceil(bin));
  }

  // Position of point k of a bin.
  double At(int64_t b, int64_t k) const {
    return start + static_cast<double>(b) * bin +
           (static_cast<double>(k) + 0.5) * bin / points;
  }

  // Points [first, last) of a bin contain all that lie in the image; a region
  // may be much larger than that.
  struct Range {
    int64_t first, last;
  };
  Range InImage(int64_t b) const {
    const double step = bin / points;
    if (!(points > 0)) return {0, 0};
    double low = 0, high = points;
    if (step != 0) {
      const double base = start + static_cast<double>(b) * bin;
      double one = (-1 - base) / step - 0.5;
      double other = (static_cast<double>(size) - base) / step - 0.5;
      if (one > other) std::swap(one, other);
      low = std::clamp(std::floor(one), 0.0, points);
      high = std::clamp(std::ceil(other) + 1, 0.0, points);
    }
    return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
  }
};

// The two cells beside a position, and the weight of the second.
struct Beside {
  bool inside = false;
  int64_t low = 0, high = 0;
  double fraction = 0;

  Beside(double x, int64_t size) {
    const double last = static_cast<double>(size - 1);
    inside = x >= -1 && x <= static_cast<double>(size) && size > 0;
    if (!inside) return;
    x = std::clamp(x, 0.0, last);
    low = static_cast<int64_t>(x);
    high = std::min(low + 1, size - 1);
    fraction = x - static_cast<double>(low);
  }
};

// What a bin collects. The maximum is of the four weighted cells around each
// point, not of their sum: so ONNX has it.
struct Collected {
  double sum = 0, largest = 0;
  bool any = false;

  void Add(double a, double b, double c, double d) {
    sum += a + b + c + d;
    AddMaximum(std::max(std::max(a, b), std::max(c, d)));
  }
  void AddMaximum(double value) {
    largest = any ? std::max(largest, value) : value;
    any = true;
  }
};

template <class T>
Collected Collect(const SamplingAxis& rows, const SamplingAxis& columns,
                  int64_t row_bin, int64_t column_bin, const T* plane) {
  Collected result;
  const SamplingAxis::Range down = rows.InImage(row_bin);
  const SamplingAxis::Range across = columns.InImage(column_bin);
  double inside = 0;
  for (int64_t i = down.first; i < down.last; ++i) {
    const Beside v(rows.At(row_bin, i), rows.size);
    if (!v.inside) continue;
    for (int64_t j = across.first; j < across.last; ++j) {
      const Beside h(columns.At(column_bin, j), columns.size);
      if (!h.inside) continue;
      const T* low = plane + v.low * columns.size;
      const T* high = plane + v.high * columns.size;
      result.Add((1 - v.fraction) * (1 - h.fraction) * low[h.low],
                 (1 - v.fraction) * h.fraction * low[h.high],
                 v.fraction * (1 - h.fraction) * high[h.low],
                 v.fraction * h.fraction * high[h.high]);
      ++inside;
    }
  }
  // A point outside counts as 0.
  if (inside < rows.points * columns.points) result.AddMaximum(0);
  return result;
}

template <class T, bool old>
void RoiAlign(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Shape& y_shape = c.output(0).shape();
  const AlignSettings s = ReadAlign<old>(c.node());
  const auto rois = c.in<T>(1);
  const auto samples = c.in<int64_t>(2);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const int64_t channels = x_shape[1];
  const int64_t plane = x_shape[2] * x_shape[3];
  const auto run = [&](int64_t i) {
    const int64_t region = i / channels;
    const T* roi = rois.data() + region * 4;
    const SamplingAxis columns(c.node(), s, static_cast<double>(roi[0]),
                               static_cast<double>(roi[2]), s.width,
                               x_shape[3]);
    const SamplingAxis rows(c.node(), s, static_cast<double>(roi[1]),
                            static_cast<double>(roi[3]), s.height, x_shape[2]);
    const double points = std::max(1.0, rows.points * columns.points);
    const int64_t sample = RequireBatch(c, samples[region]);
    const T* from = x + (sample * channels + i % channels) * plane;
    for (int64_t b = 0; b < s.height * s.width; ++b) {
      const Collected bin =
          Collect(rows, columns, b / s.width, b % s.width, from);
      y[i * s.height * s.width + b] =
          static_cast<T>(s.maximum ? bin.largest : bin.sum / points);
    }
  };
  c.ParallelFor(y_shape[0] * channels, static_cast<double>(100 + plane),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

// --- MaxRoiPool

// X, regions (sample, x1, y1, x2, y2)
void InferMaxRoiPool(InferContext& c) {
  RequirePlanes(c);
  const auto size = c.node().Ints("pooled_shape");
  if (size.size() != 2) {
    Fail(c.node(), "attribute pooled_shape has {} numbers, not 2", size.size());
  }
  InferRegions(c, 5, size[0], size[1]);
}

// Cells [first, last) of the image that bin b of a region covers.
struct CellRange {
  int64_t first, last;
};

CellRange CellsOf(const OpNode& node, double from, double to, double scale,
                  int64_t b, int64_t bins, int64_t size) {
  const double start = std::round(RequireBounded(node, from * scale));
  const double end = std::round(RequireBounded(node, to * scale));
  const double bin = std::max(end - start + 1, 1.0) / static_cast<double>(bins);
  const double low = start + std::floor(static_cast<double>(b) * bin);
  const double high = start + std::ceil(static_cast<double>(b + 1) * bin);
  const double most = static_cast<double>(size);
  return {static_cast<int64_t>(std::clamp(low, 0.0, most)),
          static_cast<int64_t>(std::clamp(high, 0.0, most))};
}

// Bins without a cell give 0.
template <class T>
void MaxRoiPool(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Shape& y_shape = c.output(0).shape();
  const double scale = c.node().Float("spatial_scale", 1);
  const auto rois = c.in<T>(1);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const int64_t channels = x_shape[1], height = y_shape[2], width = y_shape[3];
  const auto run = [&](int64_t i) {
    const T* roi = rois.data() + i / channels * 5;
    const auto number = [&](int k) { return static_cast<double>(roi[k]); };
    const double index = number(0);
    const int64_t sample = RequireBatch(
        c, index >= 0 && index < 0x1p40 ? static_cast<int64_t>(index) : -1);
    const T* plane =
        x + (sample * channels + i % channels) * x_shape[2] * x_shape[3];
    for (int64_t b = 0; b < height * width; ++b) {
      const CellRange rows = CellsOf(c.node(), number(2), number(4), scale,
                                     b / width, height, x_shape[2]);
      const CellRange columns = CellsOf(c.node(), number(1), number(3), scale,
                                        b % width, width, x_shape[3]);
      bool any = false;
      T largest{0};
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t k = columns.first; k < columns.last; ++k) {
          const T value = plane[row * x_shape[3] + k];
          if (!any || value > largest || value != value) largest = value;
          any = true;
        }
      }
      y[i * height * width + b] = largest;
    }
  };
  c.ParallelFor(y_shape[0] * channels,
                static_cast<double>(100 + x_shape[2] * x_shape[3]),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

template <bool old>
constexpr ReferenceKernel RoiAlignKernel() {
  return Instantiate<Floats>(
      []<class T>(const KernelContext& c) { RoiAlign<T, old>(c); });
}

}  // namespace

extern constexpr OpDef kRoiAlign10 = {.name = "RoiAlign",
                                      .since = 10,
                                      .inputs = {3, 3},
                                      .infer = InferRoiAlign<true>,
                                      .reference = RoiAlignKernel<true>(),
                                      .stops_gradient = {1, 2}};

extern constexpr OpDef kRoiAlign16 = {.name = "RoiAlign",
                                      .since = 16,
                                      .inputs = {3, 3},
                                      .infer = InferRoiAlign<false>,
                                      .reference = RoiAlignKernel<false>(),
                                      .stops_gradient = {1, 2}};

extern constexpr OpDef kMaxRoiPool = {
    .name = "MaxRoiPool",
    .inputs = {2, 2},
    .infer = InferMaxRoiPool,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MaxRoiPool<T>(c); }),
    .stops_gradient = {1}};

}  // namespace strop::ops
