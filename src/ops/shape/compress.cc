// SPDX-License-Identifier: Apache-2.0
#include "ops/axis.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

// x, condition: may be shorter than the axis, what it does not reach is left
// out.
void InferCompress(InferContext& c) {
  const OpNode& node = c.node();
  const Shape& x = c.input(0).shape;
  const AxisSizes s = ReadAxisOrAll(node, x);
  RequireType(c, 1, DataType::kBool);
  const auto condition = c.value(1).values<bool>();
  if (c.input(1).shape.rank() != 1 ||
      static_cast<int64_t>(condition.size()) > s.size) {
    Fail(node, "a condition of shape {} does not fit an axis of {}",
         c.input(1).shape.ToString(), s.size);
  }
  const int64_t kept = std::count(condition.begin(), condition.end(), true);
  std::vector<int64_t> dims = {kept};
  if (node.Has("axis")) {
    dims.assign(x.begin(), x.end());
    dims[NormalizeAxis(node, node.Int("axis"), x.rank())] = kept;
  }
  c.SetOutput(0, c.input(0).type, Shape(dims));
}

void Compress(const KernelContext& c) {
  const AxisSizes s = ReadAxisOrAll(c.node(), c.input(0).shape());
  const auto condition = c.in<bool>(1);
  const size_t block =
      static_cast<size_t>(s.inner) * DataTypeSize(c.input(0).type());
  const auto* from = static_cast<const std::byte*>(c.input(0).data());
  auto* to = static_cast<std::byte*>(c.output(0).data());
  if (block == 0) return;
  for (int64_t outer = 0; outer < s.outer; ++outer) {
    for (size_t i = 0; i < condition.size(); ++i) {
      if (!condition[i]) continue;
      const size_t row = static_cast<size_t>(outer * s.size) + i;
      std::memcpy(to, from + row * block, block);
      to += block;
    }
  }
}

// --- Gradients

// Adds dy up where the numbers of the kept places say.
void CompressGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var shape = b.Shape(c.x());
  const bool flat = !c.node().Has("axis");
  const int64_t axis = c.node().Int("axis", 0);
  const Var count = flat ? b.Op("Size", {c.x()}, {}, kOnnx, DataType::kInt64)
                         : b.Op("Gather", {shape, b.Int(axis)});
  const Var places =
      b.Op("Compress", {b.Op("Range", {b.Int(0), count, b.Int(1)}), c.x(1)});
  const Var dx = b.MicrosoftOp(
      "GatherGrad",
      {flat ? b.Reshape(count, b.Ints({1})) : shape, places, c.dy()},
      {{"axis", axis}}, b.type(c.x()));
  c.Set(0, flat ? b.Reshape(dx, shape) : dx);
}

}  // namespace

extern constexpr OpDef kCompress = {.name = "Compress",
                                    .since = 9,
                                    .inputs = {2, 2},
                                    .infer = InferCompress,
                                    .reference = ByteKernel<Compress>(),
                                    .value_inputs = {1},
                                    .gradient = Rule(CompressGradient),
                                    .stops_gradient = {1}};

}  // namespace strop::ops
