// SPDX-License-Identifier: Apache-2.0
//
// Concat, Split and their twins in training graphs.
#include <fmt/ranges.h>

#include "base/overflow.h"
#include "base/round.h"
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

// Copies `part` from or to the place at `offset` along `axis` of `whole`.
StridedCopy PartCopy(const Shape& part, const Shape& whole, size_t axis,
                     int64_t offset, bool part_to_whole) {
  const Dims part_strides = Strides(part);
  const Dims whole_strides = Strides(whole);
  const Dims& from = part_to_whole ? part_strides : whole_strides;
  const Dims& to = part_to_whole ? whole_strides : part_strides;
  StridedCopy copy;
  for (size_t i = 0; i < part.rank(); ++i) {
    copy.AddAxis(part[i], from[i], to[i]);
  }
  (part_to_whole ? copy.to_offset : copy.from_offset) =
      offset * whole_strides[axis];
  return copy;
}

void InferConcat(InferContext& c) {
  const TensorInfo& first = c.input(0);
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis"), first.shape.rank());
  std::vector<int64_t> dims(first.shape.begin(), first.shape.end());
  for (size_t i = 1; i < c.input_count(); ++i) {
    RequireSameType(c, 0, i);
    const Shape& shape = c.input(i).shape;
    bool fits = shape.rank() == first.shape.rank();
    for (size_t a = 0; fits && a < shape.rank(); ++a) {
      fits = a == axis || shape[a] == first.shape[a];
    }
    if (!fits) {
      Fail(c.node(), "inputs 0 and {} differ beside axis {}: {} and {}", i,
           axis, first.shape.ToString(), shape.ToString());
    }
    if (AddOverflows(dims[axis], shape[axis], &dims[axis])) {
      Fail(c.node(), "the result is too large");
    }
  }
  c.SetOutput(0, first.type, Shape(dims));
}

void InferConcatTraining(InferContext& c) {
  InferConcat(c);
  c.SetOutput(1, DataType::kInt64, {static_cast<int64_t>(c.input_count())});
}

void Concat(const KernelContext& c) {
  const Tensor& y = c.output(0);
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis"), y.shape().rank());
  int64_t offset = 0;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const Shape& part = c.input(i).shape();
    PartCopy(part, y.shape(), axis, offset, /*part_to_whole=*/true)
        .Run(c, c.input(i), y);
    offset += part[axis];
  }
}

void ConcatTraining(const KernelContext& c) {
  Concat(c);
  if (!c.has_output(1)) return;
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis"), c.output(0).shape().rank());
  const auto lengths = c.out<int64_t>(1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = c.input(i).shape()[axis];
  }
}

// Sizes along the axis: input 1, or equal parts of which the last may be
// smaller when `uneven`.
std::vector<int64_t> SplitSizes(const InferContext& c, int64_t size,
                                int64_t parts, bool uneven) {
  std::vector<int64_t> sizes;
  if (c.has_input(1)) sizes = c.IntValues(1);
  if (!sizes.empty()) {
    int64_t sum = 0;
    for (const int64_t part : sizes) {
      if (part < 0 || AddOverflows(sum, part, &sum)) {
        Fail(c.node(), "split holds {}", part);
      }
    }
    if (static_cast<int64_t>(sizes.size()) != parts || sum != size) {
      Fail(c.node(), "splits an axis of size {} into {} parts by ({})", size,
           parts, fmt::join(sizes, ", "));
    }
    return sizes;
  }
  const int64_t part = CeilDiv(size, parts);
  const int64_t last = size - part * (parts - 1);
  if (last < 0 || (!uneven && last != part)) {
    Fail(c.node(), "an axis of size {} does not split into {} equal parts",
         size, parts);
  }
  sizes.assign(parts, part);
  sizes.back() = last;
  return sizes;
}

void SetSplitOutputs(InferContext& c, bool uneven) {
  const TensorInfo& x = c.input(0);
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", 0), x.shape.rank());
  if (c.output_count() == 0) Fail(c.node(), "has no output");
  const std::vector<int64_t> sizes = SplitSizes(
      c, x.shape[axis], static_cast<int64_t>(c.output_count()), uneven);
  std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
  for (size_t i = 0; i < sizes.size(); ++i) {
    dims[axis] = sizes[i];
    c.SetOutput(i, x.type, Shape(dims));
  }
}

void InferSplit(InferContext& c) {
  const bool counted = c.node().Has("num_outputs");
  const int64_t outputs = static_cast<int64_t>(c.output_count());
  if (counted && c.node().Int("num_outputs") != outputs) {
    Fail(c.node(), "num_outputs is {}, but there are {}",
         c.node().Int("num_outputs"), outputs);
  }
  SetSplitOutputs(c, counted);
}

void InferSplitTraining(InferContext& c) {
  SetSplitOutputs(c, /*uneven=*/false);
}

void Split(const KernelContext& c) {
  const Tensor& x = c.input(0);
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", 0), x.shape().rank());
  // Where an output is left out, its size is in input 1 or that of an equal
  // part.
  const int64_t parts = static_cast<int64_t>(c.output_count());
  const int64_t equal = CeilDiv(x.shape()[axis], parts);
  const bool given = c.has_input(1) && c.input(1).element_count() > 0;
  int64_t offset = 0;
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (c.has_output(i)) {
      PartCopy(c.output(i).shape(), x.shape(), axis, offset,
               /*part_to_whole=*/false)
          .Run(c, x, c.output(i));
    }
    offset += given ? IndexAt(c.input(1), i) : equal;
  }
}

// --- Gradients

// Sizes of the inputs along the axis, as one int64 list.
Var SizesAlong(GradientContext& c, int64_t axis) {
  GraphBuilder& b = c.build();
  std::vector<int64_t> known;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const auto& dims = b.dims(c.x(i));
    if (!dims) break;
    const auto at = static_cast<size_t>(
        axis < 0 ? axis + static_cast<int64_t>(dims->size()) : axis);
    if (at >= dims->size() || !(*dims)[at].value) break;
    known.push_back(*(*dims)[at].value);
  }
  if (known.size() == c.input_count()) return b.Ints(known);
  std::vector<Var> sizes;
  for (size_t i = 0; i < c.input_count(); ++i)
    sizes.push_back(b.Op("Gather", {b.Shape(c.x(i)), b.Ints({axis})}));
  return b.Op("Concat", sizes, {{"axis", int64_t{0}}});
}

// ONNX Runtime's op takes the sizes as an input in every opset.
void ConcatGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  if (c.input_count() == 1) return c.Set(0, c.dy());
  const int64_t axis = c.node().Int("axis", 0);
  const std::vector<DataType> types(c.input_count(), b.type(c.y()));
  const Var inputs[] = {c.dy(), SizesAlong(c, axis)};
  const std::vector<Var> parts =
      b.Ops("SplitTraining", inputs, types, {{"axis", axis}}, kMicrosoft);
  for (size_t i = 0; i < parts.size(); ++i) c.Set(i, parts[i]);
}

void SplitGradient(GradientContext& c) {
  std::vector<Var> parts;
  for (size_t i = 0; i < c.output_count(); ++i) {
    // One that is left out still has its place.
    c.AddedOutput(i, "part", c.build().type(c.x()));
    parts.push_back(c.dy_or_zeros(i));
  }
  c.Set(0, c.build().Op("Concat", parts, {{"axis", c.node().Int("axis", 0)}}));
}

}  // namespace

extern constexpr OpDef kConcat = {.name = "Concat",
                                  .inputs = {1, Arity::kVariadic},
                                  .infer = InferConcat,
                                  .reference = ByteKernel<Concat>(),
                                  .gradient = Rule(ConcatGradient)};

// Concat that also tells the inputs' sizes along the axis.
extern constexpr OpDef kConcatTraining = {
    .name = "ConcatTraining",
    .domain = kMicrosoft,
    .inputs = {1, Arity::kVariadic},
    .outputs = {1, 2},
    .infer = InferConcatTraining,
    .reference = ByteKernel<ConcatTraining>(),
    .gradient = Rule(ConcatGradient)};

// Cuts an axis into parts of the sizes in input 1, or into equal ones.
extern constexpr OpDef kSplit = {.name = "Split",
                                 .inputs = {1, 2},
                                 .outputs = {0, Arity::kVariadic},
                                 .infer = InferSplit,
                                 .reference = ByteKernel<Split>(),
                                 .value_inputs = {1},
                                 .gradient = Rule(SplitGradient),
                                 .stops_gradient = {1}};

extern constexpr OpDef kSplitTraining = {.name = "SplitTraining",
                                         .domain = kMicrosoft,
                                         .inputs = {2, 2},
                                         .outputs = {0, Arity::kVariadic},
                                         .infer = InferSplitTraining,
                                         .reference = ByteKernel<Split>(),
                                         .value_inputs = {1},
                                         .gradient = Rule(SplitGradient),
                                         .stops_gradient = {1}};

}  // namespace strop::ops
