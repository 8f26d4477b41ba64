// SPDX-License-Identifier: Apache-2.0
//
// Ops that give the same elements another shape.
#include <fmt/ranges.h>

#include "base/overflow.h"
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

using IntList = std::vector<int64_t>;

void InferReshape(InferContext& c) {
  const Shape& x = c.input(0).shape;
  IntList dims = c.IntValues(1);
  const bool allow_zero = c.node().Int("allowzero", 0) != 0;
  int64_t known = 1;
  int open = -1;
  bool overflow = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= x.rank()) {
        Fail(c.node(), "the new shape keeps axis {} of {}", i, x.ToString());
      }
      dims[i] = x[i];
    }
    if (dims[i] == -1) {
      if (open >= 0) Fail(c.node(), "the new shape leaves two axes open");
      open = static_cast<int>(i);
    } else if (dims[i] < 0) {
      Fail(c.node(), "the new shape holds {}", dims[i]);
    } else {
      overflow |= MultiplyOverflows(known, dims[i], &known);
    }
  }
  const int64_t count = x.element_count();
  if (open >= 0) {
    if (overflow || known == 0 || count % known != 0) {
      Fail(c.node(), "{} elements do not divide by {} for the open axis", count,
           known);
    }
    dims[open] = count / known;
    known = count;
  }
  if (overflow || known != count) {
    Fail(c.node(), "{} has {} elements, the new shape ({}) another number",
         x.ToString(), count, fmt::join(dims, ", "));
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

void InferFlatten(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const int64_t rank = static_cast<int64_t>(x.rank());
  int64_t axis = c.node().Int("axis", 1);
  if (axis < -rank || axis > rank) {
    Fail(c.node(), "axis {} is out of range for rank {}", axis, rank);
  }
  if (axis < 0) axis += rank;
  c.SetOutput(0, c.input(0).type,
              {x.element_count(0, axis), x.element_count(axis, rank)});
}

void InferSqueeze(InferContext& c) {
  const Shape& x = c.input(0).shape;
  AxisSet axes;
  if (c.has_input(1)) {
    axes = NormalizeAxes(c.node(), c.IntValues(1), x.rank());
  } else {
    for (size_t i = 0; i < x.rank(); ++i) axes[i] = x[i] == 1;
  }
  IntList dims;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!axes[i]) {
      dims.push_back(x[i]);
    } else if (x[i] != 1) {
      Fail(c.node(), "axis {} of {} is not 1", i, x.ToString());
    }
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

void InferUnsqueeze(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const IntList axes = c.IntValues(1);
  const size_t rank = x.rank() + axes.size();
  if (rank > Shape::kMaxRank) {
    Fail(c.node(), "rank {} is more than Strop's limit of {}", rank,
         Shape::kMaxRank);
  }
  const AxisSet added = NormalizeAxes(c.node(), axes, rank);
  IntList dims(rank, 1);
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    if (!added[i]) dims[i] = x[next++];
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

// --- Gradients

void ReshapeBack(GradientContext& c) {
  c.Set(0, c.build().Reshape(c.dy(), c.build().Shape(c.x())));
}

}  // namespace

extern constexpr OpDef kIdentity = {
    .name = "Identity",
    .infer = SameAsInput,
    .reference = ByteKernel<CopyInput>(),
    .is_view = true,
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) { c.Set(0, c.dy()); })};

// A 0 in the new shape keeps the axis (unless allowzero), one -1 is what is
// left.
extern constexpr OpDef kReshape = {.name = "Reshape",
                                   .inputs = {2, 2},
                                   .infer = InferReshape,
                                   .reference = ByteKernel<CopyInput>(),
                                   .value_inputs = {1},
                                   .is_view = true,
                                   .gradient = Rule(ReshapeBack),
                                   .stops_gradient = {1}};

// To a matrix: axes before `axis` make the rows, the others the columns.
extern constexpr OpDef kFlatten = {.name = "Flatten",
                                   .infer = InferFlatten,
                                   .reference = ByteKernel<CopyInput>(),
                                   .is_view = true,
                                   .gradient = Rule(ReshapeBack)};

extern constexpr OpDef kSqueeze = {.name = "Squeeze",
                                   .inputs = {1, 2},
                                   .infer = InferSqueeze,
                                   .reference = ByteKernel<CopyInput>(),
                                   .value_inputs = {1},
                                   .is_view = true,
                                   .gradient = Rule(ReshapeBack),
                                   .stops_gradient = {1}};

extern constexpr OpDef kUnsqueeze = {.name = "Unsqueeze",
                                     .inputs = {2, 2},
                                     .infer = InferUnsqueeze,
                                     .reference = ByteKernel<CopyInput>(),
                                     .value_inputs = {1},
                                     .is_view = true,
                                     .gradient = Rule(ReshapeBack),
                                     .stops_gradient = {1}};

}  // namespace strop::ops
