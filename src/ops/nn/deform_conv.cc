// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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

// X, W, offset, B (optional), mask (optional)
void InferDeformConv(InferContext& c) {
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  const Shape& x = c.input(0).shape;
  const DeformSizes s = ReadSizes(c.node(), x, c.input(1).shape);
  const Window& w = s.conv.window;
  const int64_t taps = Shape({w.kernel.data(), w.rank}).element_count();
  int64_t numbers = 0;
  if (__builtin_mul_overflow(s.offset_groups, taps, &numbers) ||
      numbers > (int64_t{1} << 48)) {
    Fail(c.node(), "{} offset groups of {} taps are too many", s.offset_groups,
         taps);
  }
  RequireShape(
      c, 2, WindowOutputShape(w, x[0], numbers * static_cast<int64_t>(w.rank)));
  if (c.has_input(3)) RequireShape(c, 3, {s.conv.out_channels});
  if (c.has_input(4)) RequireShape(c, 4, WindowOutputShape(w, x[0], numbers));
  c.SetOutput(0, c.input(0).type,
              WindowOutputShape(w, x[0], s.conv.out_channels));
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

  // Where tap `tap` reads for output o; `at` counts taps of all groups.
  void SetCorners(int64_t at, int64_t tap, int64_t o, Corners& corners) const {
    const Window& w = s_.conv.window;
    const int64_t rank = static_cast<int64_t>(w.rank);
    const T* offset = c_.in<T>(2).data();
    double position[Window::kMaxAxes];
    int64_t rest = o;
    for (int64_t axis = rank; axis-- > 0;) {
      position[axis] = static_cast<double>(
          rest % w.output[axis] * w.stride[axis] - w.pad_begin[axis] +
          tap % w.kernel[axis] * w.dilation[axis]);
      position[axis] +=
          static_cast<double>(offset[(at * rank + axis) * out_ + o]);
      rest /= w.output[axis];
      tap /= w.kernel[axis];
    }
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

}  // namespace

// A convolution whose taps read where the offsets move them to, times the
// mask; between cells linearly, outside the image zero.
extern constexpr OpDef kDeformConv = {
    .name = "DeformConv",
    .since = 19,
    .inputs = {3, 5},
    .infer = InferDeformConv,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { DeformConv<T>(c).Run(); })};

}  // namespace strop::ops
