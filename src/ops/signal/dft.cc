// SPDX-License-Identifier: Apache-2.0
//
// DFT and STFT. The last axis of a signal holds real and imaginary part, or
// the real part alone. `onesided` means the first n / 2 + 1 numbers of the
// transform of a real signal; the others are their conjugates.
#include "ops/gradient_formula.h"
#include "ops/op_util.h"
#include "ops/signal/fourier.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

using Complex = FourierTransform::Complex;

void CheckLength(const OpNode& node, int64_t n) {
  if (n < 1 || n > FourierTransform::kMaxLength) {
    Fail(node, "cannot transform {} numbers", n);
  }
}

// Numbers along one axis that are `step` numbers apart, of `parts` each.
template <class T>
Complex Load(const T* x, int64_t i, int64_t step, int64_t parts) {
  const T* at = x + i * step * parts;
  return {static_cast<double>(at[0]),
          parts == 2 ? static_cast<double>(at[1]) : 0};
}
template <class T>
void Store(T* y, int64_t i, int64_t step, int64_t parts, Complex value) {
  T* at = y + i * step * parts;
  at[0] = static_cast<T>(value.real());
  if (parts == 2) at[1] = static_cast<T>(value.imag());
}

struct DftSizes {
  bool inverse, onesided;
  size_t axis;
  int64_t length;    // n of the transform
  int64_t in, out;   // sizes of the axis
  int64_t in_parts;  // 1 or 2
  int64_t out_parts() const { return inverse && onesided ? 1 : 2; }
  // Numbers of the input that are read.
  int64_t read() const {
    return std::min(in, inverse && onesided ? length / 2 + 1 : length);
  }
};

// signal, dft_length (optional), axis (an optional input from opset 20 on,
// before that an attribute)
DftSizes ReadDft(const OpNode& node, const Shape& x, const Tensor* length,
                 int64_t axis) {
  DftSizes s;
  const size_t rank = x.rank();
  if (rank < 2 || x[rank - 1] < 1 || x[rank - 1] > 2) {
    Fail(node, "the last axis of {} does not hold numbers of 1 or 2 parts",
         x.ToString());
  }
  s.inverse = node.Int("inverse", 0) != 0;
  s.onesided = node.Int("onesided", 0) != 0;
  s.axis = NormalizeAxis(node, axis, rank);
  if (s.axis == rank - 1) Fail(node, "axis {} holds the parts", axis);
  s.in = x[s.axis];
  s.in_parts = x[rank - 1];
  s.length = length != nullptr         ? IndexAt(*length, 0)
             : s.inverse && s.onesided ? 2 * (s.in - 1)
                                       : s.in;
  CheckLength(node, s.length);
  if (s.onesided && !s.inverse && s.in_parts != 1) {
    Fail(node, "only a real signal has a onesided transform, not {}",
         x.ToString());
  }
  s.out = s.onesided && !s.inverse ? s.length / 2 + 1 : s.length;
  return s;
}

constexpr int64_t kAxisBefore20 = 1, kAxisFrom20 = -2;

template <int opset>
void InferDft(InferContext& c) {
  int64_t axis = opset < 20 ? c.node().Int("axis", kAxisBefore20) : kAxisFrom20;
  const Tensor* length = nullptr;
  for (size_t i = 1; i < 3; ++i) {
    if (!c.has_input(i)) continue;
    RequireIndices(c, i);
    RequireOneElement(c, i);
    if (i == 1) length = &c.value(1);
    if (i == 2) axis = IndexAt(c.value(2), 0);
  }
  const TensorInfo& x = c.input(0);
  const DftSizes s = ReadDft(c.node(), x.shape, length, axis);
  Dims dims = {};
  std::copy(x.shape.begin(), x.shape.end(), dims.begin());
  dims[s.axis] = s.out;
  dims[x.shape.rank() - 1] = s.out_parts();
  c.SetOutput(0, x.type, Shape(std::span(dims.data(), x.shape.rank())));
}

// A real signal from the first half of its transform.
void FillConjugates(std::span<Complex> x) {
  const size_t n = x.size();
  x[0] = x[0].real();
  for (size_t k = 1; k <= n / 2; ++k) {
    if (2 * k == n) {
      x[k] = x[k].real();
    } else {
      x[n - k] = std::conj(x[k]);
    }
  }
}

template <class T, int opset>
void Dft(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  int64_t axis = opset < 20 ? c.node().Int("axis", kAxisBefore20) : kAxisFrom20;
  if (c.has_input(2)) axis = IndexAt(c.input(2), 0);
  const DftSizes s =
      ReadDft(c.node(), x, c.has_input(1) ? &c.input(1) : nullptr, axis);
  const int64_t outer = x.element_count(0, s.axis);
  const int64_t inner = x.element_count(s.axis + 1, x.rank() - 1);
  if (outer * inner == 0) return;
  FourierTransform transform(s.length, c.scratch());
  const std::span<Complex> data = transform.data();
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t o = line / inner, i = line % inner;
    const T* from = c.in<T>(0).data() + (o * s.in * inner + i) * s.in_parts;
    T* to = c.out<T>(0).data() + (o * s.out * inner + i) * s.out_parts();
    std::fill(data.begin(), data.end(), Complex());
    for (int64_t j = 0; j < s.read(); ++j) {
      data[static_cast<size_t>(j)] = Load(from, j, inner, s.in_parts);
    }
    if (s.inverse && s.onesided) FillConjugates(data);
    s.inverse ? transform.Inverse() : transform.Forward();
    for (int64_t k = 0; k < s.out; ++k) {
      Store(to, k, inner, s.out_parts(), data[static_cast<size_t>(k)]);
    }
  }
}

// Scratch for a transform of which `out` numbers are kept.
size_t ScratchFor(int64_t out, bool is_half) {
  const int64_t shortest = is_half ? 2 * (out - 1) : out;
  size_t bytes = 0;
  for (const int64_t n : {shortest, is_half ? shortest + 1 : shortest}) {
    if (n >= 1 && n <= FourierTransform::kMaxLength) {
      bytes = std::max(bytes, FourierTransform::ScratchBytes(n));
    }
  }
  return bytes;
}

// An axis that is not known yet may be any.
template <int opset>
size_t DftScratch(const KernelRequest& r) {
  const Shape& y = r.outputs[0].shape;
  const bool is_half =
      r.node.Int("onesided", 0) != 0 && r.node.Int("inverse", 0) == 0;
  if (r.has_input(2) && r.inputs[2].constant == nullptr) {
    size_t bytes = 0;
    for (size_t i = 0; i + 1 < y.rank(); ++i) {
      bytes = std::max(bytes, ScratchFor(y[i], is_half));
    }
    return bytes;
  }
  int64_t axis = opset < 20 ? r.node.Int("axis", kAxisBefore20) : kAxisFrom20;
  if (r.has_input(2)) axis = IndexAt(*r.inputs[2].constant, 0);
  return ScratchFor(y[NormalizeAxis(r.node, axis, y.rank())], is_half);
}

// --- Gradients
//
// The transform is linear: its gradient is the transform the other way, times
// or over n, cut or filled with zeros to what the signal was.

// The axis, where it is a constant.
int64_t AxisOf(GradientContext& c) {
  if (c.opset() < 20) return c.node().Int("axis", kAxisBefore20);
  if (!c.has_input(2)) return kAxisFrom20;
  const auto axis = c.build().ConstantInts(c.x(2));
  if (!axis) c.Fail("its axis must be constant");
  return axis->at(0);
}

// A DFT along the same axis; without `length`, of what is there.
Var Transform(GradientContext& c, Var x, Var length, bool inverse,
              bool onesided) {
  Attributes attributes = {{"inverse", int64_t{inverse}},
                           {"onesided", int64_t{onesided}}};
  if (c.opset() >= 20) {
    const Var axis = c.has_input(2) ? c.x(2) : Var{};
    return c.build().Op("DFT", {x, length, axis}, attributes);
  }
  attributes.emplace_back("axis", AxisOf(c));
  return c.build().Op("DFT", {x, length}, attributes);
}

// int64[1]: the size of an axis.
Var SizeAlong(GraphBuilder& b, Var x, int64_t axis) {
  return b.Op("Gather", {b.Shape(x), b.Ints({axis})});
}

// The first numbers along an axis, as many as x has there.
Var FirstLike(GraphBuilder& b, Var y, Var x, int64_t axis) {
  return b.Op("Slice", {y, b.Ints({0}), SizeAlong(b, x, axis), b.Ints({axis})});
}

// int64[1]: n.
Var LengthOf(GradientContext& c, int64_t axis) {
  GraphBuilder& b = c.build();
  const bool halved =
      c.node().Int("onesided", 0) != 0 && c.node().Int("inverse", 0) == 0;
  if (!halved) return SizeAlong(b, c.y(), axis);
  if (!c.has_input(1)) return SizeAlong(b, c.x(), axis);
  return b.Reshape(b.Cast(c.x(1), DataType::kInt64), b.Ints({1}));
}

// In the inverse of a onesided transform, all numbers but the first and, of
// an even n, the last stand for two. (n / 2 + 1) numbers along `axis`.
Var Counts(GradientContext& c, Var dx, Var n, int64_t axis) {
  GraphBuilder& b = c.build();
  const auto rank = b.rank(c.x());
  if (!rank) c.Fail("the rank of its input must be known");
  const Var size = SizeAlong(b, dx, axis);
  const Var k =
      b.Op("Range", {b.Int(0), b.Reshape(size, b.Ints({})), b.Int(1)});
  const Var is_single = b.Compare("Or", b.Compare("Equal", k, b.Int(0)),
                                  b.Compare("Equal", k + k, n));
  const DataType type = b.type(c.x());
  const Var counts = b.Where(is_single, b.Scalar(1, type), b.Scalar(2, type));
  std::vector<int64_t> shape(*rank, 1);
  shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(*rank)
                                     : axis)] = -1;
  return b.Reshape(counts, b.Ints(shape));
}

void DftGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const bool inverse = c.node().Int("inverse", 0) != 0;
  const bool onesided = c.node().Int("onesided", 0) != 0;
  const int64_t axis = AxisOf(c);
  const Var n = LengthOf(c, axis);
  const Var count = b.Cast(n, b.type(c.x()));
  Var dx = Transform(c, c.dy(), n, !inverse, inverse && onesided);
  if (inverse && onesided) dx = dx * Counts(c, dx, n, axis);
  dx = inverse ? dx / count : dx * count;
  // A real signal has no imaginary part.
  dx = FirstLike(b, dx, c.x(), -1);
  const Var parts[] = {dx, b.ZerosLike(c.x())};
  c.Set(0, FirstLike(b, b.Op("Concat", parts, {{"axis", axis}}), c.x(), axis));
}

template <int opset>
constexpr OpDef DftOp() {
  return {.name = "DFT",
          .since = opset,
          .inputs = {1, opset < 20 ? 2 : 3},
          .infer = InferDft<opset>,
          .reference = Instantiate<Floats>(
              []<class T>(const KernelContext& c) { Dft<T, opset>(c); },
              DftScratch<opset>),
          .value_inputs = {1, 2},
          .gradient = Rule(DftGradient),
          .stops_gradient = {1, 2}};
}

// --- STFT

// signal (batch, length, parts), frame_step, window (optional), frame_length
// (optional) -> (batch, frames, numbers of a transform, 2)
struct StftSizes {
  int64_t batch, signal, parts;
  int64_t step, length, frames;
  int64_t out;
};

StftSizes ReadStft(const OpNode& node, const Shape& x, const Tensor& step,
                   const Shape* window, const Tensor* length) {
  StftSizes s;
  // A real signal may leave out the axis of the parts.
  if (x.rank() < 2 || x.rank() > 3 ||
      (x.rank() == 3 && (x[2] < 1 || x[2] > 2))) {
    Fail(node, "wants a signal (batch, length, 1 or 2), not {}", x.ToString());
  }
  s.batch = x[0];
  s.signal = x[1];
  s.parts = x.rank() == 3 ? x[2] : 1;
  s.step = IndexAt(step, 0);
  s.length = length != nullptr   ? IndexAt(*length, 0)
             : window != nullptr ? (*window)[0]
                                 : s.signal;
  if (window != nullptr && *window != Shape{s.length}) {
    Fail(node, "the window {} does not fit frames of length {}",
         window->ToString(), s.length);
  }
  CheckLength(node, s.length);
  if (s.step < 1) Fail(node, "the frame step is {}", s.step);
  if (s.length > s.signal) {
    Fail(node, "a frame of length {} does not fit into the signal {}", s.length,
         x.ToString());
  }
  s.frames = (s.signal - s.length) / s.step + 1;
  const bool onesided = node.Int("onesided", 1) != 0;
  if (onesided && s.parts != 1) {
    Fail(node, "only a real signal has a onesided transform, not {}",
         x.ToString());
  }
  s.out = onesided ? s.length / 2 + 1 : s.length;
  return s;
}

void InferStft(InferContext& c) {
  for (const size_t i : {size_t{1}, size_t{3}}) {
    if (!c.has_input(i)) continue;
    RequireIndices(c, i);
    RequireOneElement(c, i);
  }
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    if (c.input(2).shape.rank() != 1) {
      Fail(c.node(), "the window has the shape {}",
           c.input(2).shape.ToString());
    }
  }
  const StftSizes s = ReadStft(c.node(), c.input(0).shape, c.value(1),
                               c.has_input(2) ? &c.input(2).shape : nullptr,
                               c.has_input(3) ? &c.value(3) : nullptr);
  c.SetOutput(0, c.input(0).type, {s.batch, s.frames, s.out, 2});
}

template <class T>
void Stft(const KernelContext& c) {
  const StftSizes s = ReadStft(c.node(), c.input(0).shape(), c.input(1),
                               c.has_input(2) ? &c.input(2).shape() : nullptr,
                               c.has_input(3) ? &c.input(3) : nullptr);
  if (s.batch == 0) return;
  const T* window = c.has_input(2) ? c.in<T>(2).data() : nullptr;
  FourierTransform transform(s.length, c.scratch());
  const std::span<Complex> data = transform.data();
  T* to = c.out<T>(0).data();
  for (int64_t i = 0; i < s.batch * s.frames; ++i) {
    const int64_t start = i / s.frames * s.signal + i % s.frames * s.step;
    const T* from = c.in<T>(0).data() + start * s.parts;
    for (size_t j = 0; j < data.size(); ++j) {
      data[j] = Load(from, static_cast<int64_t>(j), 1, s.parts);
      if (window) data[j] *= static_cast<double>(window[j]);
    }
    transform.Forward();
    for (int64_t k = 0; k < s.out; ++k) {
      Store(to, k, 1, 2, data[static_cast<size_t>(k)]);
    }
    to += 2 * s.out;
  }
}

// --- Gradients

// The frames are gathered, weighed and transformed.
std::vector<Var> StftFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  const auto rank = b.rank(c.x());
  if (!rank) c.Fail("the rank of its signal must be known");
  const Var x = *rank == 2 ? b.Unsqueeze(c.x(), {2}) : c.x();
  const auto scalar = [&](Var v) {
    return b.Reshape(b.Cast(v, DataType::kInt64), b.Ints({}));
  };
  const auto count_to = [&](Var n) {
    return b.Op("Range", {b.Int(0), scalar(n), b.Int(1)});
  };
  const Var length = c.has_input(3)   ? c.x(3)
                     : c.has_input(2) ? SizeAlong(b, c.x(2), 0)
                                      : SizeAlong(b, c.x(), 1);
  const Var starts = count_to(SizeAlong(b, c.y(), 1)) * scalar(c.x(1));
  const Var places = b.Unsqueeze(starts, {1}) + count_to(length);
  Var frames = b.Op("Gather", {x, places}, {{"axis", int64_t{1}}});
  if (c.has_input(2)) frames = frames * b.Unsqueeze(c.x(2), {1});
  Attributes attributes = {{"onesided", c.node().Int("onesided", 1)}};
  if (c.opset() >= 20)
    return {b.Op("DFT", {frames, Var{}, b.Int(2)}, attributes)};
  attributes.emplace_back("axis", int64_t{2});
  return {b.Op("DFT", {frames}, attributes)};
}

}  // namespace

extern constexpr OpDef kDft17 = DftOp<17>();
extern constexpr OpDef kDft20 = DftOp<20>();

// The transforms of overlapping frames of a signal.
extern constexpr OpDef kStft = {
    .name = "STFT",
    .inputs = {2, 4},
    .infer = InferStft,
    .reference =
        Instantiate<Floats>([]<class T>(const KernelContext& c) { Stft<T>(c); },
                            [](const KernelRequest& r) {
                              return ScratchFor(r.outputs[0].shape[2],
                                                r.node.Int("onesided", 1) != 0);
                            }),
    .value_inputs = {1, 3},
    .gradient = Rule(FromFormula<StftFormula>),
    .stops_gradient = {1, 3}};

}  // namespace strop::ops
