// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/strided_copy.h"

namespace strop::ops {
namespace {

// Attribute perm, or all axes reversed.
Dims ReadPermutation(const OpNode& node, size_t rank) {
  const auto perm = node.Ints("perm");
  Dims axes = {};
  if (perm.empty()) {
    for (size_t i = 0; i < rank; ++i) axes[i] = rank - 1 - i;
    return axes;
  }
  if (perm.size() != rank) {
    Fail(node, "attribute perm has {} axes for rank {}", perm.size(), rank);
  }
  NormalizeAxes(node, perm, rank);
  for (size_t i = 0; i < rank; ++i) {
    axes[i] = NormalizeAxis(node, perm[i], rank);
  }
  return axes;
}

void InferTranspose(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const Dims perm = ReadPermutation(c.node(), x.rank());
  Dims dims = {};
  for (size_t i = 0; i < x.rank(); ++i) dims[i] = x[perm[i]];
  c.SetOutput(0, c.input(0).type,
              Shape(std::span<const int64_t>(dims.data(), x.rank())));
}

void Transpose(const KernelContext& c) {
  const Shape& y = c.output(0).shape();
  const Dims perm = ReadPermutation(c.node(), y.rank());
  const Dims from = Strides(c.input(0).shape());
  const Dims to = Strides(y);
  StridedCopy copy;
  for (size_t i = 0; i < y.rank(); ++i) {
    copy.AddAxis(y[i], from[perm[i]], to[i]);
  }
  copy.Run(c, c.input(0), c.output(0));
}

// --- Gradients

void TransposeGradient(GradientContext& c) {
  const auto perm = c.node().Ints("perm");
  // Reversing the axes twice is the identity.
  if (!c.node().Has("perm"))
    return c.Set(0, c.build().Op("Transpose", {c.dy()}));
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  c.Set(0, c.build().Transpose(c.dy(), inverse));
}

}  // namespace

// Axis i of y is axis perm[i] of x.
extern constexpr OpDef kTranspose = {.name = "Transpose",
                                     .infer = InferTranspose,
                                     .reference = ByteKernel<Transpose>(),
                                     .gradient = Rule(TransposeGradient)};

}  // namespace strop::ops
