// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

enum class PadMode { kConstant, kReflect, kEdge, kWrap };

PadMode ReadMode(const OpNode& node) {
  const std::string_view mode = node.String("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  Fail(node, "attribute mode is \"{}\"", mode);
}

// Cells added (or, where negative, cut off) before and after each axis.
struct Pads {
  Dims begin = {}, end = {};
};

Pads ReadPads(const OpNode& node, const Tensor& pads, const Tensor* axes,
              size_t rank) {
  SmallInts named;
  if (axes != nullptr) {
    named = ReadSmallInts(node, *axes);
    NormalizeAxes(node, named.span(), rank);
  } else {
    named.size = rank;
    for (size_t i = 0; i < rank; ++i) named.values[i] = i;
  }
  if (pads.element_count() != static_cast<int64_t>(2 * named.size)) {
    Fail(node, "has {} pads for {} axes", pads.element_count(), named.size);
  }
  Pads result;
  for (size_t i = 0; i < named.size; ++i) {
    const size_t axis = NormalizeAxis(node, named.values[i], rank);
    result.begin[axis] = IndexAt(pads, i);
    result.end[axis] = IndexAt(pads, i + named.size);
  }
  return result;
}

void InferPad(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const PadMode mode = ReadMode(c.node());
  RequireIndices(c, 1);
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireOneElement(c, 2);
  }
  if (c.has_input(3)) RequireIndices(c, 3);
  const Pads pads = ReadPads(c.node(), c.value(1),
                             c.has_input(3) ? &c.value(3) : nullptr, x.rank());
  std::vector<int64_t> dims(x.rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t begin = pads.begin[i], end = pads.end[i];
    // Far above any tensor; keeps sums of positions in 64 bits.
    constexpr int64_t kMostPad = int64_t{1} << 40;
    if (std::abs(begin / 2) > kMostPad || std::abs(end / 2) > kMostPad ||
        AddOverflows(x[i], begin, &dims[i]) ||
        AddOverflows(dims[i], end, &dims[i]) || dims[i] < 0) {
      Fail(c.node(), "pads {} and {} do not fit axis {} of {}", begin, end, i,
           x.ToString());
    }
    if (mode == PadMode::kConstant || dims[i] == 0) continue;
    const bool repeats_one = mode == PadMode::kReflect && x[i] == 1;
    if ((begin > 0 || end > 0) && (x[i] == 0 || repeats_one)) {
      Fail(c.node(), "axis {} of {} has no cells to pad with", i, x.ToString());
    }
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// Where the cell at `index` comes from in an axis of `size`; -1: the fill
// value.
int64_t Source(PadMode mode, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return index;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return index < 0 ? 0 : size - 1;
    case PadMode::kWrap:
      return ((index % size) + size) % size;
    case PadMode::kReflect: {
      const int64_t period = 2 * (size - 1);
      const int64_t at = ((index % period) + period) % period;
      return at < size ? at : period - at;
    }
  }
  return -1;
}

template <class T>
void Pad(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  const Shape& y = c.output(0).shape();
  const PadMode mode = ReadMode(c.node());
  const Pads pads = ReadPads(c.node(), c.input(1),
                             c.has_input(3) ? &c.input(3) : nullptr, x.rank());
  const T fill = c.has_input(2) ? c.scalar<T>(2) : T{};
  const T* from = c.in<T>(0).data();
  T* to = c.out<T>(0).data();
  const Dims strides = Strides(x);
  c.ParallelFor(y.element_count(), 4.0 * static_cast<double>(y.rank()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    int64_t rest = i, offset = 0;
                    bool inside = true;
                    for (size_t axis = y.rank(); axis-- > 0;) {
                      const int64_t at = rest % y[axis] - pads.begin[axis];
                      rest /= y[axis];
                      const int64_t source = Source(mode, at, x[axis]);
                      inside &= source >= 0;
                      offset += source * strides[axis];
                    }
                    to[i] = inside ? from[offset] : fill;
                  }
                });
}

// --- Gradients

// The place in x of each element of y, taken along by padding their numbers.
Var PaddedPlaces(GradientContext& c, Var count) {
  GraphBuilder& b = c.build();
  const Var numbers = b.Op("Range", {b.Int(0), count, b.Int(1)});
  const Var places = b.Reshape(numbers, b.Shape(c.x()));
  return b.Op("Pad", {places, c.x(1), Var{}, c.x(3)},
              {{"mode", std::string(c.node().String("mode", "constant"))}});
}

// Padding takes away what it had added, and adds zeros where it had cropped.
// In the other modes elements of y that repeat x are added up there.
void PadGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  if (c.node().String("mode", "constant") != "constant") {
    const Var count = b.Op("Size", {c.x()}, {}, kOnnx, DataType::kInt64);
    const Var all = b.Ints({-1});
    const Var dx = b.MicrosoftOp(
        "GatherGrad",
        {b.Reshape(count, b.Ints({1})), b.Reshape(PaddedPlaces(c, count), all),
         b.Reshape(c.dy(), all)},
        {{"axis", int64_t{0}}}, b.type(c.x()));
    return c.Set(0, b.Reshape(dx, b.Shape(c.x())));
  }
  const auto pads = b.ConstantInts(c.x(1));
  Var negative;
  if (pads) {
    std::vector<int64_t> values = *pads;
    for (int64_t& value : values) value = -value;
    negative = b.Ints(values);
  } else {
    negative = -c.x(1);
  }
  const Var dx = b.Op("Pad", {c.dy(), negative, Var{}, c.x(3)});
  c.Set(0, dx);
  if (!c.needs(2)) return;
  const Var rest = b.ReduceSum(c.dy(), {}, false) - b.ReduceSum(dx, {}, false);
  c.Set(2, b.Reshape(rest, b.Shape(c.x(2))));
}

}  // namespace

// data, pads, fill value (optional), axes (optional)
extern constexpr OpDef kPad = {
    .name = "Pad",
    .inputs = {2, 4},
    .infer = InferPad,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { Pad<T>(c); }),
    .value_inputs = {1, 3},
    .gradient = Rule(PadGradient),
    .stops_gradient = {1, 3}};

}  // namespace strop::ops
