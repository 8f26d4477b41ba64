// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// The cache and the update as (batch, outer, rows, inner).
struct CacheSizes {
  int64_t batch, outer, rows, new_rows, inner;
};

CacheSizes ReadCache(const OpNode& node, const Shape& cache,
                     const Shape& update) {
  const size_t rank = cache.rank();
  const size_t axis = NormalizeAxis(node, node.Int("axis", -2), rank);
  if (axis == 0) Fail(node, "axis 0 is the batch");
  bool fits = update.rank() == rank;
  for (size_t i = 0; fits && i < rank; ++i) {
    fits = i == axis ? update[i] <= cache[i] : update[i] == cache[i];
  }
  if (!fits) {
    Fail(node, "an update {} does not fit into axis {} of {}",
         update.ToString(), axis, cache.ToString());
  }
  return {cache[0], cache.element_count(1, axis), cache[axis], update[axis],
          cache.element_count(axis + 1, rank)};
}

bool IsCircular(const OpNode& node) {
  const std::string_view mode = node.String("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    Fail(node, "attribute mode is \"{}\"", mode);
  }
  return mode == "circular";
}

void InferTensorScatter(InferContext& c) {
  RequireSameType(c, 0, 1);
  const CacheSizes s = ReadCache(c.node(), c.input(0).shape, c.input(1).shape);
  IsCircular(c.node());
  if (c.has_input(2)) {
    RequireType(c, 2, DataType::kInt64);
    RequireShape(c, 2, {s.batch});
  }
  SameAsInput(c);
}

void CheckPositions(const OpNode& node, const CacheSizes& s, bool is_circular,
                    std::span<const int64_t> positions) {
  for (const int64_t first : positions) {
    if (first < 0 || (!is_circular && first > s.rows - s.new_rows)) {
      Fail(node, "{} rows do not fit at row {} of {}", s.new_rows, first,
           s.rows);
    }
  }
}

void TensorScatter(const KernelContext& c) {
  const bool is_circular = IsCircular(c.node());
  const CacheSizes s =
      ReadCache(c.node(), c.input(0).shape(), c.input(1).shape());
  const auto positions =
      c.has_input(2) ? c.in<int64_t>(2) : std::span<const int64_t>();
  CheckPositions(c.node(), s, is_circular, positions);
  CopyInput(c);
  const size_t bytes =
      static_cast<size_t>(s.inner) * DataTypeSize(c.input(0).type());
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(c.input(1).data());
  auto* to = static_cast<std::byte*>(c.output(0).data());
  for (int64_t line = 0; line < s.batch * s.outer; ++line) {
    const int64_t first =
        positions.empty() ? 0 : positions[static_cast<size_t>(line / s.outer)];
    for (int64_t row = 0; row < s.new_rows; ++row) {
      // The remainder first: positions may be huge.
      const int64_t at = (first % s.rows + row) % s.rows;
      std::memcpy(to + (line * s.rows + at) * bytes,
                  from + (line * s.new_rows + row) * bytes, bytes);
    }
  }
}

// --- Gradients

// Where each element of the cache comes from: its number in the update plus
// 1, or 0; scattered as the update was.
Var Places(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var count = b.Op("Size", {c.x(1)}, {}, kOnnx, DataType::kInt64);
  const Var numbers = b.Op("Range", {b.Int(1), count + b.Int(1), b.Int(1)});
  const Var none = b.Zeros(b.Shape(c.x(0)), DataType::kInt64);
  const Var first = c.has_input(2) ? c.x(2) : Var{};
  return b.Op("TensorScatter",
              {none, b.Reshape(numbers, b.Shape(c.x(1))), first},
              c.attributes());
}

void TensorScatterGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var places = Places(c), zero = b.Scalar(0, type);
  if (c.needs(0)) {
    const Var is_kept = b.Compare("Equal", places, b.Int(0));
    c.Set(0, b.Where(is_kept, c.dy(), zero));
  }
  if (!c.needs(1)) return;
  const Var all = b.Ints({-1});
  const Var count = b.Reshape(
      b.Op("Size", {c.x(1)}, {}, kOnnx, DataType::kInt64), b.Ints({1}));
  const Var sums = b.MicrosoftOp(
      "GatherGrad",
      {count + b.Ints({1}), b.Reshape(places, all), b.Reshape(c.dy(), all)},
      {{"axis", int64_t{0}}}, type);
  const Var update =
      b.Op("Slice", {sums, b.Ints({1}), count + b.Ints({1}), b.Ints({0})});
  c.Set(1, b.Reshape(update, b.Shape(c.x(1))));
}

}  // namespace

// cache, update, first row of the update for each sample -> cache with the
// rows of the update along `axis` replaced.
extern constexpr OpDef kTensorScatter = {
    .name = "TensorScatter",
    .since = 24,
    .inputs = {2, 3},
    .infer = InferTensorScatter,
    .reference = ByteKernel<TensorScatter>(),
    .may_overwrite = {0},
    .gradient = Rule(TensorScatterGradient),
    .stops_gradient = {2}};

}  // namespace strop::ops
