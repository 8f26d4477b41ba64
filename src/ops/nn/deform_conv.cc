// SPDX-License-Identifier: Apache-2.0
//
// DeformConv and its gradient.
#include <cmath>

#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/nn/conv_kernels.h"

namespace strop::ops {
namespace {

struct DeformSizes {
  ConvSizes conv;
  int64_t offset_groups;

  int64_t channels_per_offset() const {
    return conv.in_channels / offset_groups;
  }
};

DeformSizes ReadSizes(const OpNode& node, const Shape& x, const Shape& w) {
  DeformSizes s = {ReadConvSizes(node, x, w), node.Int("offset_group", 1)};
  if (s.offset_groups < 1 || s.conv.in_channels % s.offset_groups != 0) {
    Fail(node, "{} channels cannot be cut into {} offset groups",
         s.conv.in_channels, s.offset_groups);
  }
  return s;
}

// Where the inputs of DeformConv and of its gradient stand; the mask is
// optional.
struct Slots {
  size_t x, w, offset, mask;
};
constexpr Slots kForward = {0, 1, 2, 4}, kBackward = {1, 2, 3, 4};

// Checks all inputs but the bias, and returns the shape of Y.
Shape ReadShapes(const InferContext& c, const Slots& slots) {
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  const Shape& x = c.input(slots.x).shape;
  const DeformSizes s = ReadSizes(c.node(), x, c.input(slots.w).shape);
  const Window& w = s.conv.window;
  const int64_t taps = Shape({w.kernel.data(), w.rank}).element_count();
  int64_t numbers = 0;
  if (MultiplyOverflows(s.offset_groups, taps, &numbers) ||
      numbers > (int64_t{1} << 48)) {
    Fail(c.node(), "{} offset groups of {} taps are too many", s.offset_groups,
         taps);
  }
  RequireShape(
      c, slots.offset,
      WindowOutputShape(w, x[0], numbers * static_cast<int64_t>(w.rank)));
  if (c.has_input(slots.mask))
    RequireShape(c, slots.mask, WindowOutputShape(w, x[0], numbers));
  return WindowOutputShape(w, x[0], s.conv.out_channels);
}

// X, W, offset, B (optional), mask (optional)
void InferDeformConv(InferContext& c) {
  const Shape y = ReadShapes(c, kForward);
  if (c.has_input(3)) RequireShape(c, 3, {y[1]});
  c.SetOutput(0, c.input(0).type, y);
}

// dY, X, W, offset, mask (optional) -> dX, dW, doffset, dmask
void InferDeformConvGrad(InferContext& c) {
  RequireShape(c, 0, ReadShapes(c, kBackward));
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (c.has_output(i))
      c.SetOutput(i, c.input(i + 1).type, c.input(i + 1).shape);
  }
}

// The cells around a position between them, with the weights of linear
// interpolation; cells outside the image are left out.
struct Corners {
  static constexpr int kMost = 1 << Window::kMaxAxes;
  int count = 0;
  int64_t offsets[kMost];
  double weights[kMost];

  void Set(const Window& w, const double* position) {
    count = 1;
    offsets[0] = 0;
    weights[0] = 1;
    for (size_t axis = 0; axis < w.rank; ++axis)
      AddAxis(w.input[axis], position[axis]);
  }

 private:
  void AddAxis(int64_t size, double x) {
    if (!(x > -1 && x < static_cast<double>(size))) {
      count = 0;
      return;
    }
    const double floor = std::floor(x);
    const int64_t low = static_cast<int64_t>(floor);
    const int before = count;
    count = 0;
    // The upper cells are written behind the lower ones first.
    int64_t old_offsets[kMost];
    double old_weights[kMost];
    std::copy_n(offsets, before, old_offsets);
    std::copy_n(weights, before, old_weights);
    for (int upper = 0; upper < 2; ++upper) {
      const int64_t cell = low + upper;
      const double weight = upper ? x - floor : 1 - (x - floor);
      if (cell < 0 || cell >= size || weight == 0) continue;
      for (int i = 0; i < before; ++i) {
        offsets[count] = old_offsets[i] * size + cell;
        weights[count++] = old_weights[i] * weight;
      }
    }
  }
};

// Where tap `tap` reads for output o; `at` counts the taps of all groups and
// samples.
template <class T>
void SetPosition(const Window& w, const T* offset, int64_t at, int64_t tap,
                 int64_t o, double* position) {
  const int64_t rank = static_cast<int64_t>(w.rank), out = w.output_size();
  int64_t rest = o;
  for (int64_t axis = rank; axis-- > 0;) {
    position[axis] = static_cast<double>(
        rest % w.output[axis] * w.stride[axis] - w.pad_begin[axis] +
        tap % w.kernel[axis] * w.dilation[axis]);
    position[axis] += static_cast<double>(offset[(at * rank + axis) * out + o]);
    rest /= w.output[axis];
    tap /= w.kernel[axis];
  }
}

// One output position of one sample, all channels.
template <class T>
class DeformConv {
 public:
  explicit DeformConv(const KernelContext& c)
      : c_(c),
        s_(ReadSizes(c.node(), c.input(0).shape(), c.input(1).shape())),
        in_(s_.conv.window.input_size()),
        out_(s_.conv.window.output_size()),
        taps_(s_.conv.window.kernel_size()) {}

  void Run() const {
    c_.ParallelFor(s_.conv.batch * out_,
                   10.0 + static_cast<double>(s_.conv.in_channels * taps_) *
                              (10 + static_cast<double>(s_.conv.group_out())),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       RunPosition(i / out_, i % out_);
                     }
                   });
  }

 private:
  void RunPosition(int64_t n, int64_t o) const {
    T* y = c_.out<T>(0).data() + n * s_.conv.out_channels * out_ + o;
    for (int64_t m = 0; m < s_.conv.out_channels; ++m) {
      y[m * out_] = c_.has_input(3) ? c_.in<T>(3)[m] : T{0};
    }
    Corners corners;
    for (int64_t g = 0; g < s_.offset_groups; ++g) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const int64_t at = (n * s_.offset_groups + g) * taps_ + tap;
        const double mask =
            c_.has_input(4) ? static_cast<double>(c_.in<T>(4)[at * out_ + o])
                            : 1;
        SetCorners(at, tap, o, corners);
        AddTap(n, g, tap, mask, corners, y);
      }
    }
  }

  void SetCorners(int64_t at, int64_t tap, int64_t o, Corners& corners) const {
    const Window& w = s_.conv.window;
    double position[Window::kMaxAxes];
    SetPosition(w, c_.in<T>(2).data(), at, tap, o, position);
    corners.Set(w, position);
  }

  void AddTap(int64_t n, int64_t g, int64_t tap, double mask,
              const Corners& corners, T* y) const {
    const ConvSizes& conv = s_.conv;
    const T* w = c_.in<T>(1).data();
    const int64_t per_offset = s_.channels_per_offset();
    for (int64_t k = g * per_offset; k < (g + 1) * per_offset; ++k) {
      const T* plane = c_.in<T>(0).data() + (n * conv.in_channels + k) * in_;
      double value = 0;
      for (int i = 0; i < corners.count; ++i) {
        value +=
            corners.weights[i] * static_cast<double>(plane[corners.offsets[i]]);
      }
      const T masked = static_cast<T>(value * mask);
      const int64_t first = k / conv.group_in() * conv.group_out();
      for (int64_t m = first; m < first + conv.group_out(); ++m) {
        const T weight =
            w[(m * conv.group_in() + k % conv.group_in()) * taps_ + tap];
        y[m * out_] += weight * masked;
      }
    }
  }

  const KernelContext& c_;
  const DeformSizes s_;
  const int64_t in_, out_, taps_;
};

// The cells around a position, with their weights and how these change along
// each axis. Those of weight 0 are there too.
struct SlopedCorners {
  int count = 0;
  int64_t offsets[Corners::kMost];
  double weights[Corners::kMost];
  double slopes[Corners::kMost][Window::kMaxAxes];

  void Set(const Window& w, const double* position) {
    count = 0;
    for (size_t axis = 0; axis < w.rank; ++axis) {
      const double x = position[axis];
      if (!(x > -1 && x < static_cast<double>(w.input[axis]))) return;
    }
    const int all = 1 << w.rank;
    for (int corner = 0; corner < all; ++corner) AddCorner(w, position, corner);
  }

 private:
  // Bit `axis` of `corner` says whether it is the upper one along the axis.
  void AddCorner(const Window& w, const double* position, int corner) {
    int64_t offset = 0;
    double weight = 1;
    double* slope = slopes[count];
    std::fill_n(slope, w.rank, 1.0);
    for (size_t axis = 0; axis < w.rank; ++axis) {
      const bool upper = (corner >> axis & 1) != 0;
      const double floor = std::floor(position[axis]);
      const double fraction = position[axis] - floor;
      const int64_t cell = static_cast<int64_t>(floor) + (upper ? 1 : 0);
      if (cell < 0 || cell >= w.input[axis]) return;
      const double along = upper ? fraction : 1 - fraction;
      for (size_t i = 0; i < w.rank; ++i)
        slope[i] *= i != axis ? along : upper ? 1 : -1;
      offset = offset * w.input[axis] + cell;
      weight *= along;
    }
    offsets[count] = offset;
    weights[count++] = weight;
  }
};

// With v the value that a tap reads from a channel, and g = sum over output
// channels of W dY: dX and the offsets get g mask times the weights and their
// slopes, the mask g v, and W the sum of dY mask v.
template <class T>
class DeformConvGrad {
 public:
  explicit DeformConvGrad(const KernelContext& c)
      : c_(c),
        s_(ReadSizes(c.node(), c.input(1).shape(), c.input(2).shape())),
        window_(s_.conv.window),
        in_(window_.input_size()),
        out_(window_.output_size()),
        taps_(window_.kernel_size()) {}

  void Run() const {
    for (size_t i = 0; i < c_.output_count(); ++i)
      if (c_.has_output(i)) FillZero(c_.output(i));
    if (c_.input(0).element_count() == 0) return;
    const double cost = static_cast<double>(taps_ * out_) *
                        (30 + static_cast<double>(s_.conv.group_out()));
    if (c_.has_output(0) || c_.has_output(2) || c_.has_output(3)) {
      c_.ParallelFor(s_.conv.batch,
                     cost * static_cast<double>(s_.conv.in_channels),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = begin; n < end; ++n) RunSample(n);
                     });
    }
    if (!c_.has_output(1)) return;
    c_.ParallelFor(s_.conv.in_channels,
                   cost * static_cast<double>(s_.conv.batch),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t k = begin; k < end; ++k) RunWeights(k);
                   });
  }

 private:
  // One reading of the image: tap `tap` of sample n for output o, in the
  // channels of an offset group.
  struct Reading {
    int64_t n, tap, o;
    int64_t at;  // among the offsets
    double mask = 1;
    SlopedCorners corners;
  };

  // Calls run(Reading) for all taps and outputs of an offset group.
  template <class F>
  void ForEachReading(int64_t n, int64_t group, F&& run) const {
    Reading r;
    r.n = n;
    for (r.tap = 0; r.tap < taps_; ++r.tap) {
      r.at = (n * s_.offset_groups + group) * taps_ + r.tap;
      for (r.o = 0; r.o < out_; ++r.o) {
        double position[Window::kMaxAxes];
        SetPosition(window_, c_.in<T>(3).data(), r.at, r.tap, r.o, position);
        r.corners.Set(window_, position);
        if (c_.has_input(4))
          r.mask = static_cast<double>(c_.in<T>(4)[r.at * out_ + r.o]);
        run(r);
      }
    }
  }

  // Calls visit(dY, number of the weight) for the outputs of input channel k.
  template <class F>
  void ForEachOutput(const Reading& r, int64_t k, F&& visit) const {
    const ConvSizes& conv = s_.conv;
    const T* dy = c_.in<T>(0).data() + r.n * conv.out_channels * out_ + r.o;
    const int64_t first = k / conv.group_in() * conv.group_out();
    for (int64_t m = first; m < first + conv.group_out(); ++m) {
      const int64_t w = (m * conv.group_in() + k % conv.group_in()) * taps_;
      visit(static_cast<double>(dy[m * out_]), w + r.tap);
    }
  }

  int64_t PlaneOf(int64_t n, int64_t k) const {
    return (n * s_.conv.in_channels + k) * in_;
  }

  double ValueAt(const Reading& r, int64_t k) const {
    const T* plane = c_.in<T>(1).data() + PlaneOf(r.n, k);
    double value = 0;
    for (int i = 0; i < r.corners.count; ++i)
      value += r.corners.weights[i] *
               static_cast<double>(plane[r.corners.offsets[i]]);
    return value;
  }

  void RunSample(int64_t n) const {
    const int64_t per_group = s_.channels_per_offset();
    for (int64_t group = 0; group < s_.offset_groups; ++group) {
      ForEachReading(n, group, [&](const Reading& r) {
        for (int64_t k = group * per_group; k < (group + 1) * per_group; ++k)
          SpreadChannel(r, k);
      });
    }
  }

  void SpreadChannel(const Reading& r, int64_t k) const {
    const T* w = c_.in<T>(2).data();
    double slope = 0;
    ForEachOutput(r, k, [&](double dy, int64_t weight) {
      slope += dy * static_cast<double>(w[weight]);
    });
    if (c_.has_output(3))
      c_.out<T>(3)[r.at * out_ + r.o] += static_cast<T>(slope * ValueAt(r, k));
    slope *= r.mask;
    const int64_t plane = PlaneOf(r.n, k);
    const int64_t rank = static_cast<int64_t>(window_.rank);
    for (int i = 0; i < r.corners.count; ++i) {
      const int64_t cell = plane + r.corners.offsets[i];
      if (c_.has_output(0))
        c_.out<T>(0)[cell] += static_cast<T>(slope * r.corners.weights[i]);
      if (!c_.has_output(2)) continue;
      const double moved = slope * static_cast<double>(c_.in<T>(1)[cell]);
      for (int64_t axis = 0; axis < rank; ++axis)
        c_.out<T>(2)[(r.at * rank + axis) * out_ + r.o] +=
            static_cast<T>(moved * r.corners.slopes[i][axis]);
    }
  }

  void RunWeights(int64_t k) const {
    T* dw = c_.out<T>(1).data();
    for (int64_t n = 0; n < s_.conv.batch; ++n) {
      ForEachReading(n, k / s_.channels_per_offset(), [&](const Reading& r) {
        const double value = r.mask * ValueAt(r, k);
        ForEachOutput(r, k, [&](double dy, int64_t weight) {
          dw[weight] += static_cast<T>(dy * value);
        });
      });
    }
  }

  const KernelContext& c_;
  const DeformSizes s_;
  const Window& window_;
  const int64_t in_, out_, taps_;
};

// --- Gradients

void DeformConvGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const size_t slots[] = {kForward.x, kForward.w, kForward.offset,
                          kForward.mask};
  DataType types[4];
  for (size_t i = 0; i < 4; ++i)
    types[i] = c.needs(slots[i]) ? b.type(c.x()) : DataType::kUndefined;
  const Var inputs[] = {c.dy(), c.x(0), c.x(1), c.x(2), c.x(4)};
  const auto gradients =
      b.Ops("DeformConvGrad", inputs, types, c.attributes(), kStrop);
  for (size_t i = 0; i < 4; ++i) c.Set(slots[i], gradients[i]);
  if (!c.needs(3)) return;
  // Sums over all but the channels.
  const Var planes = b.Op("Flatten", {b.ReduceSum(c.dy(), {0}, false)});
  c.Set(3, b.ReduceSum(planes, {1}, false));
}

}  // namespace

// A convolution whose taps read where the offsets move them to, times the
// mask; between cells linearly, outside the image zero.
extern constexpr OpDef kDeformConv = {
    .name = "DeformConv",
    .since = 19,
    .inputs = {3, 5},
    .infer = InferDeformConv,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { DeformConv<T>(c).Run(); }),
    .gradient = Rule(DeformConvGradient)};

// dY, X, W, offset, mask (optional) -> dX, dW, doffset, dmask, each optional;
// the attributes of DeformConv.
extern constexpr OpDef kDeformConvGrad = {
    .name = "DeformConvGrad",
    .domain = kStrop,
    .inputs = {4, 5},
    .outputs = {0, 4},
    .infer = InferDeformConvGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { DeformConvGrad<T>(c).Run(); })};

}  // namespace strop::ops
