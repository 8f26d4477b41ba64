// SPDX-License-Identifier: Apache-2.0
//
// Slice and its gradient.
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

// First index, step and count along every axis.
struct SliceRanges {
  Dims start = {}, step = {}, count = {};
};

// `ints(i)` reads the numbers of the node's input i: starts, ends, axes and
// steps stand at inputs first .. first + 3, the last two optional.
template <class Context, class Ints>
SliceRanges ReadRanges(const Context& c, const Shape& x, size_t first,
                       Ints&& ints) {
  const OpNode& node = c.node();
  SliceRanges r;
  for (size_t i = 0; i < x.rank(); ++i) {
    r.step[i] = 1;
    r.count[i] = x[i];
  }
  const SmallInts starts = ints(first);
  const SmallInts ends = ints(first + 1);
  SmallInts axes, steps;
  if (c.has_input(first + 2)) {
    axes = ints(first + 2);
  } else {
    axes.size = starts.size;
    for (size_t i = 0; i < axes.size; ++i) axes.values[i] = i;
  }
  if (c.has_input(first + 3)) {
    steps = ints(first + 3);
  } else {
    steps.size = starts.size;
    steps.values.fill(1);
  }
  if (ends.size != starts.size || axes.size != starts.size ||
      steps.size != starts.size) {
    Fail(node, "has {} starts, {} ends, {} axes and {} steps", starts.size,
         ends.size, axes.size, steps.size);
  }
  NormalizeAxes(node, axes.span(), x.rank());
  for (size_t i = 0; i < starts.size; ++i) {
    const size_t axis = NormalizeAxis(node, axes.values[i], x.rank());
    const int64_t n = x[axis];
    const int64_t step = steps.values[i];
    if (step == 0) Fail(node, "the step of axis {} is 0", axis);
    // A backward slice may end before index 0.
    const int64_t low = step > 0 ? 0 : -1;
    const int64_t high = step > 0 ? n : n - 1;
    const auto clamp = [&](int64_t index) {
      return std::clamp(index < 0 ? index + n : index, low,
                        std::max(low, high));
    };
    const int64_t start = clamp(starts.values[i]);
    const int64_t end = clamp(ends.values[i]);
    const int64_t distance = step > 0 ? end - start : start - end;
    // |step| as unsigned: the lowest number has no positive twin.
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
    r.start[axis] = start;
    r.step[axis] = step;
    r.count[axis] =
        distance <= 0 ? 0
                      : static_cast<int64_t>(
                            (static_cast<uint64_t>(distance) - 1) / stride + 1);
    if (r.count[axis] <= 1) r.step[axis] = 1;
  }
  return r;
}

SliceRanges InferRanges(const InferContext& c, const Shape& x, size_t first) {
  return ReadRanges(c, x, first, [&](size_t i) {
    RequireIndices(c, i);
    return ReadSmallInts(c.node(), c.value(i));
  });
}

SliceRanges KernelRanges(const KernelContext& c, const Shape& x, size_t first) {
  return ReadRanges(c, x, first, [&](size_t i) {
    return ReadSmallInts(c.node(), c.input(i));
  });
}

Shape SliceShape(const SliceRanges& r, size_t rank) {
  return Shape(std::span<const int64_t>(r.count.data(), rank));
}

// Between `whole` and its slice.
StridedCopy SliceCopy(const SliceRanges& r, const Shape& whole,
                      bool from_whole) {
  const Dims whole_strides = Strides(whole);
  const Dims part_strides = Strides(SliceShape(r, whole.rank()));
  StridedCopy copy;
  int64_t offset = 0;
  for (size_t i = 0; i < whole.rank(); ++i) {
    const int64_t step = whole_strides[i] * r.step[i];
    offset += whole_strides[i] * r.start[i];
    copy.AddAxis(r.count[i], from_whole ? step : part_strides[i],
                 from_whole ? part_strides[i] : step);
  }
  (from_whole ? copy.from_offset : copy.to_offset) = offset;
  return copy;
}

void InferSlice(InferContext& c) {
  const TensorInfo& x = c.input(0);
  c.SetOutput(0, x.type,
              SliceShape(InferRanges(c, x.shape, 1), x.shape.rank()));
}

void Slice(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  if (c.output(0).element_count() == 0) return;
  SliceCopy(KernelRanges(c, x, 1), x, /*from_whole=*/true)
      .Run(c, c.input(0), c.output(0));
}

void InferSliceGrad(InferContext& c) {
  const Shape dx(c.IntValues(1));
  RequireShape(c, 0, SliceShape(InferRanges(c, dx, 2), dx.rank()));
  c.SetOutput(0, c.input(0).type, dx);
}

void SliceGrad(const KernelContext& c) {
  const Shape& dx = c.output(0).shape();
  FillZero(c.output(0));
  if (c.input(0).element_count() == 0) return;
  SliceCopy(KernelRanges(c, dx, 2), dx, /*from_whole=*/false)
      .Run(c, c.input(0), c.output(0));
}

}  // namespace

// data, starts, ends, axes (optional), steps (optional)
extern constexpr OpDef kSlice = {
    .name = "Slice",
    .inputs = {3, 5},
    .infer = InferSlice,
    .reference = ByteKernel<Slice>(),
    .value_inputs = {1, 2, 3, 4},
    .gradient = Rule([](GradientContext& c) {
      GraphBuilder& b = c.build();
      c.Set(0, b.MicrosoftOp("SliceGrad", {c.dy(), b.Shape(c.x()), c.x(1),
                                           c.x(2), c.x(3), c.x(4)}));
    }),
    .stops_gradient = {1, 2, 3, 4}};

// dY, shape of dX, starts, ends, axes (optional), steps (optional) -> dX
extern constexpr OpDef kSliceGrad = {.name = "SliceGrad",
                                     .domain = kMicrosoft,
                                     .inputs = {4, 6},
                                     .infer = InferSliceGrad,
                                     .reference = ByteKernel<SliceGrad>(),
                                     .value_inputs = {1, 2, 3, 4, 5}};

}  // namespace strop::ops
