// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign and MaxRoiPool: a grid of cells is laid over regions of interest,
// each cell takes the mean or maximum of what lies in it. And their gradients,
// of the image only.
#include <cmath>
#include <string_view>

#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// Where the inputs of an op and of its gradient, which has dY before them,
// stand.
template <bool grad>
constexpr size_t kImage = grad ? 1 : 0;

void RequirePlanes(const InferContext& c, size_t image) {
  const Shape& x = c.input(image).shape;
  if (x.rank() != 4) {
    Fail(c.node(), "wants (batch, channels, height, width), not the shape {}",
         x.ToString());
  }
}

// Input `image` and behind it the regions, `columns` numbers each; sets the
// output.
template <bool grad>
void InferRegions(InferContext& c, int64_t columns, int64_t height,
                  int64_t width) {
  constexpr size_t image = kImage<grad>;
  const Shape& x = c.input(image).shape;
  const Shape& rois = c.input(image + 1).shape;
  RequireSameType(c, image, image + 1);
  if (rois.rank() != 2 || rois[1] != columns) {
    Fail(c.node(), "wants {} numbers per region, not the shape {}", columns,
         rois.ToString());
  }
  constexpr int64_t kMost = int64_t{1} << 20;
  if (std::min(height, width) < 1 || std::max(height, width) > kMost) {
    Fail(c.node(), "cannot pool to {} x {} cells", height, width);
  }
  const Shape y = {rois[0], x[1], height, width};
  if constexpr (grad) {
    RequireSameType(c, 0, image);
    RequireShape(c, 0, y);
    c.SetOutput(0, c.input(image).type, x);
  } else {
    c.SetOutput(0, c.input(image).type, y);
  }
}

int64_t RequireBatch(const KernelContext& c, const Shape& x, int64_t index) {
  const int64_t batch = x[0];
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
template <bool old, bool grad = false>
void InferRoiAlign(InferContext& c) {
  constexpr size_t image = kImage<grad>;
  RequirePlanes(c, image);
  const AlignSettings s = ReadAlign<old>(c.node());
  InferRegions<grad>(c, 4, s.height, s.width);
  // Minutes of work from a few bytes are a mistake.
  constexpr double kMostSamples = 1e10;
  const int64_t regions = c.input(image + 1).shape[0];
  const double samples = static_cast<double>(regions) *
                         static_cast<double>(c.input(image).shape[1]) *
                         static_cast<double>(s.height * s.sampling_ratio) *
                         static_cast<double>(s.width * s.sampling_ratio);
  if (samples > kMostSamples) {
    Fail(c.node(), "sampling_ratio {} takes {} samples", s.sampling_ratio,
         samples);
  }
  RequireType(c, image + 2, DataType::kInt64);
  RequireShape(c, image + 2, {regions});
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

// The four cells around a sampling point, and their weights.
struct Around {
  int64_t offsets[4];
  double weights[4];

  Around(const Beside& v, const Beside& h, int64_t width) {
    for (int k = 0; k < 4; ++k) {
      const bool lower = k >= 2, right = k % 2 != 0;
      offsets[k] = (lower ? v.high : v.low) * width + (right ? h.high : h.low);
      weights[k] = (lower ? v.fraction : 1 - v.fraction) *
                   (right ? h.fraction : 1 - h.fraction);
    }
  }
};

// The sampling points of all bins of a region.
struct Sampling {
  SamplingAxis rows, columns;

  template <class T>
  Sampling(const OpNode& node, const AlignSettings& s, const T* roi,
           const Shape& x)
      : rows(node, s, static_cast<double>(roi[1]), static_cast<double>(roi[3]),
             s.height, x[2]),
        columns(node, s, static_cast<double>(roi[0]),
                static_cast<double>(roi[2]), s.width, x[3]) {}

  double points() const { return rows.points * columns.points; }

  // Calls visit(Around) for the points of bin b that lie in the image, and
  // returns their number.
  template <class F>
  double ForEachPoint(int64_t row_bin, int64_t column_bin, F&& visit) const {
    const SamplingAxis::Range down = rows.InImage(row_bin);
    const SamplingAxis::Range across = columns.InImage(column_bin);
    double inside = 0;
    for (int64_t i = down.first; i < down.last; ++i) {
      const Beside v(rows.At(row_bin, i), rows.size);
      if (!v.inside) continue;
      for (int64_t j = across.first; j < across.last; ++j) {
        const Beside h(columns.At(column_bin, j), columns.size);
        if (!h.inside) continue;
        visit(Around(v, h, columns.size));
        ++inside;
      }
    }
    return inside;
  }
};

// What a bin collects. The maximum is of the four weighted cells around each
// point, not of their sum: so ONNX has it.
struct Collected {
  double sum = 0, largest = 0;
  bool any = false;
  // The cell of the maximum and its weight; a point outside is no cell, and
  // counts as 0.
  int64_t offset = -1;
  double weight = 0;

  void Add(double value, int64_t cell, double cell_weight) {
    sum += value;
    if (any && !(value > largest)) return;
    largest = value;
    offset = cell;
    weight = cell_weight;
    any = true;
  }
};

template <class T>
Collected Collect(const Sampling& sampling, int64_t row_bin, int64_t column_bin,
                  const T* plane) {
  Collected result;
  const double inside =
      sampling.ForEachPoint(row_bin, column_bin, [&](const Around& around) {
        for (int k = 0; k < 4; ++k) {
          const int64_t cell = around.offsets[k];
          const double weight = around.weights[k];
          result.Add(weight * static_cast<double>(plane[cell]), cell, weight);
        }
      });
  if (inside < sampling.points()) result.Add(0, -1, 0);
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
    const Sampling sampling(c.node(), s, rois.data() + region * 4, x_shape);
    const double points = std::max(1.0, sampling.points());
    const int64_t sample = RequireBatch(c, x_shape, samples[region]);
    const T* from = x + (sample * channels + i % channels) * plane;
    for (int64_t b = 0; b < s.height * s.width; ++b) {
      const Collected bin = Collect(sampling, b / s.width, b % s.width, from);
      y[i * s.height * s.width + b] =
          static_cast<T>(s.maximum ? bin.largest : bin.sum / points);
    }
  };
  c.ParallelFor(y_shape[0] * channels, static_cast<double>(100 + plane),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

// Regions may overlap: a thread has whole channels.
template <class T>
void RoiAlignGrad(const KernelContext& c) {
  const Shape& x_shape = c.input(1).shape();
  const AlignSettings s = ReadAlign<false>(c.node());
  const auto samples = c.in<int64_t>(3);
  const int64_t channels = x_shape[1], regions = c.input(2).shape()[0];
  const int64_t plane = x_shape[2] * x_shape[3];
  const int64_t bins = s.height * s.width;
  FillZero(c.output(0));
  const auto run = [&](int64_t region, int64_t channel) {
    const Sampling sampling(c.node(), s, c.in<T>(2).data() + region * 4,
                            x_shape);
    const double points = std::max(1.0, sampling.points());
    const int64_t sample = RequireBatch(c, x_shape, samples[region]);
    const int64_t start = (sample * channels + channel) * plane;
    const T* dy = c.in<T>(0).data() + (region * channels + channel) * bins;
    const T* x = c.in<T>(1).data() + start;
    T* dx = c.out<T>(0).data() + start;
    for (int64_t b = 0; b < bins; ++b) {
      const double slope = static_cast<double>(dy[b]);
      if (s.maximum) {
        const Collected bin = Collect(sampling, b / s.width, b % s.width, x);
        if (bin.offset >= 0)
          dx[bin.offset] += static_cast<T>(bin.weight * slope);
        continue;
      }
      sampling.ForEachPoint(
          b / s.width, b % s.width, [&](const Around& around) {
            for (int k = 0; k < 4; ++k)
              dx[around.offsets[k]] +=
                  static_cast<T>(around.weights[k] * slope / points);
          });
    }
  };
  c.ParallelFor(channels,
                static_cast<double>(regions) * static_cast<double>(100 + plane),
                [&](int64_t begin, int64_t end) {
                  for (int64_t channel = begin; channel < end; ++channel)
                    for (int64_t region = 0; region < regions; ++region)
                      run(region, channel);
                });
}

// --- MaxRoiPool

// X, regions (sample, x1, y1, x2, y2)
template <bool grad>
void InferMaxRoiPool(InferContext& c) {
  RequirePlanes(c, kImage<grad>);
  const auto size = c.node().Ints("pooled_shape");
  if (size.size() != 2) {
    Fail(c.node(), "attribute pooled_shape has {} numbers, not 2", size.size());
  }
  InferRegions<grad>(c, 5, size[0], size[1]);
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

// The sample that the first number of a region tells.
template <class T>
int64_t SampleOf(const KernelContext& c, const Shape& x, const T* roi) {
  const double index = static_cast<double>(roi[0]);
  return RequireBatch(
      c, x, index >= 0 && index < 0x1p40 ? static_cast<int64_t>(index) : -1);
}

// Calls visit(bin, cell) with the offset of the largest cell of each bin in
// the plane; -1 where there is none.
template <class T, class F>
void ForEachLargest(const OpNode& node, const T* roi, const Shape& x,
                    int64_t height, int64_t width, const T* plane, F&& visit) {
  const double scale = node.Float("spatial_scale", 1);
  const auto number = [&](int k) { return static_cast<double>(roi[k]); };
  for (int64_t b = 0; b < height * width; ++b) {
    const CellRange rows =
        CellsOf(node, number(2), number(4), scale, b / width, height, x[2]);
    const CellRange columns =
        CellsOf(node, number(1), number(3), scale, b % width, width, x[3]);
    int64_t best = -1;
    for (int64_t row = rows.first; row < rows.last; ++row) {
      for (int64_t k = columns.first; k < columns.last; ++k) {
        const int64_t at = row * x[3] + k;
        if (best < 0 || plane[at] > plane[best] || plane[at] != plane[at])
          best = at;
      }
    }
    visit(b, best);
  }
}

// Bins without a cell give 0.
template <class T>
void MaxRoiPool(const KernelContext& c) {
  const Shape& x_shape = c.input(0).shape();
  const Shape& y_shape = c.output(0).shape();
  const auto rois = c.in<T>(1);
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  const int64_t channels = x_shape[1], height = y_shape[2], width = y_shape[3];
  const auto run = [&](int64_t i) {
    const T* roi = rois.data() + i / channels * 5;
    const int64_t sample = SampleOf(c, x_shape, roi);
    const T* plane =
        x + (sample * channels + i % channels) * x_shape[2] * x_shape[3];
    ForEachLargest(c.node(), roi, x_shape, height, width, plane,
                   [&](int64_t b, int64_t cell) {
                     y[i * height * width + b] = cell < 0 ? T{0} : plane[cell];
                   });
  };
  c.ParallelFor(y_shape[0] * channels,
                static_cast<double>(100 + x_shape[2] * x_shape[3]),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) run(i);
                });
}

// Regions may overlap: a thread has whole channels.
template <class T>
void MaxRoiPoolGrad(const KernelContext& c) {
  const Shape& x_shape = c.input(1).shape();
  const Shape& y_shape = c.input(0).shape();
  const int64_t channels = x_shape[1], regions = y_shape[0];
  const int64_t height = y_shape[2], width = y_shape[3];
  const int64_t size = x_shape[2] * x_shape[3];
  FillZero(c.output(0));
  const auto run = [&](int64_t region, int64_t channel) {
    const T* roi = c.in<T>(2).data() + region * 5;
    const int64_t start =
        (SampleOf(c, x_shape, roi) * channels + channel) * size;
    const T* dy =
        c.in<T>(0).data() + (region * channels + channel) * height * width;
    T* dx = c.out<T>(0).data() + start;
    ForEachLargest(c.node(), roi, x_shape, height, width,
                   c.in<T>(1).data() + start, [&](int64_t b, int64_t cell) {
                     if (cell >= 0) dx[cell] += dy[b];
                   });
  };
  c.ParallelFor(channels,
                static_cast<double>(regions) * static_cast<double>(100 + size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t channel = begin; channel < end; ++channel)
                    for (int64_t region = 0; region < regions; ++region)
                      run(region, channel);
                });
}

template <bool old>
constexpr ReferenceKernel RoiAlignKernel() {
  return Instantiate<Floats>(
      []<class T>(const KernelContext& c) { RoiAlign<T, old>(c); });
}

// --- Gradients

// Opset 10 has no coordinate_transformation_mode.
template <bool old>
void RoiAlignGradient(GradientContext& c) {
  Attributes attributes = c.attributes();
  if (old)
    attributes.emplace_back("coordinate_transformation_mode",
                            std::string("output_half_pixel"));
  c.Set(0, c.build().Op("RoiAlignGrad", {c.dy(), c.x(0), c.x(1), c.x(2)},
                        attributes, kStrop));
}

void MaxRoiPoolGradient(GradientContext& c) {
  c.Set(0, c.build().Op("MaxRoiPoolGrad", {c.dy(), c.x(0), c.x(1)},
                        c.attributes(), kStrop));
}

}  // namespace

extern constexpr OpDef kRoiAlign10 = {.name = "RoiAlign",
                                      .since = 10,
                                      .inputs = {3, 3},
                                      .infer = InferRoiAlign<true>,
                                      .reference = RoiAlignKernel<true>(),
                                      .gradient = Rule(RoiAlignGradient<true>),
                                      .stops_gradient = {1, 2}};

extern constexpr OpDef kRoiAlign16 = {.name = "RoiAlign",
                                      .since = 16,
                                      .inputs = {3, 3},
                                      .infer = InferRoiAlign<false>,
                                      .reference = RoiAlignKernel<false>(),
                                      .gradient = Rule(RoiAlignGradient<false>),
                                      .stops_gradient = {1, 2}};

extern constexpr OpDef kMaxRoiPool = {
    .name = "MaxRoiPool",
    .inputs = {2, 2},
    .infer = InferMaxRoiPool<false>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MaxRoiPool<T>(c); }),
    .gradient = Rule(MaxRoiPoolGradient),
    .stops_gradient = {1}};

// dY, X, regions, indices of their samples -> dX; the attributes of RoiAlign
// of opset 16.
extern constexpr OpDef kRoiAlignGrad = {
    .name = "RoiAlignGrad",
    .domain = kStrop,
    .inputs = {4, 4},
    .infer = InferRoiAlign<false, true>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { RoiAlignGrad<T>(c); })};

// dY, X, regions -> dX; the attributes of MaxRoiPool.
extern constexpr OpDef kMaxRoiPoolGrad = {
    .name = "MaxRoiPoolGrad",
    .domain = kStrop,
    .inputs = {3, 3},
    .infer = InferMaxRoiPool<true>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MaxRoiPoolGrad<T>(c); })};

}  // namespace strop::ops
