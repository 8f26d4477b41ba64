// SPDX-License-Identifier: Apache-2.0
//
// Batches of sequences without their padding: FlattenAndUnpad picks the rows
// that hold tokens from (sequences, steps, ...), PadAndUnflatten puts them
// back among zeros. Each is the other's gradient.
#include <cstring>

#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

Shape WithRows(std::initializer_list<int64_t> rows, const Shape& shape,
               size_t first) {
  std::vector<int64_t> dims = rows;
  dims.insert(dims.end(), shape.begin() + first, shape.end());
  return Shape(dims);
}

// rows (n, ...), indices (n), (sequences, steps) -> (sequences, steps, ...)
void InferPadAndUnflatten(InferContext& c) {
  const Shape& x = c.input(0).shape;
  RequireIndices(c, 1);
  if (x.rank() == 0) Fail(c.node(), "the input has no rows");
  RequireShape(c, 1, {x[0]});
  const std::vector<int64_t> dims = c.IntValues(2);
  if (dims.size() != 2) {
    Fail(c.node(), "unflatten_dims holds {} numbers instead of 2", dims.size());
  }
  c.SetOutput(0, c.input(0).type, WithRows({dims[0], dims[1]}, x, 1));
}

// (sequences, steps, ...), indices (n) -> rows (n, ...), (sequences, steps)
void InferFlattenAndUnpad(InferContext& c) {
  const Shape& x = c.input(0).shape;
  RequireIndices(c, 1);
  if (x.rank() < 2 || c.input(1).shape.rank() != 1) {
    Fail(c.node(), "picks rows of two axes by a list, not {} by {}",
         x.ToString(), c.input(1).shape.ToString());
  }
  c.SetOutput(0, c.input(0).type, WithRows({c.input(1).shape[0]}, x, 2));
  c.SetOutput(1, DataType::kInt64, {2});
}

// Throws unless all are rows of the padded tensor.
void CheckRows(const KernelContext& c, const Shape& padded) {
  const int64_t rows = padded.element_count(0, 2);
  for (int64_t i = 0; i < c.input(1).element_count(); ++i) {
    const int64_t index = IndexAt(c.input(1), static_cast<size_t>(i));
    if (index < 0 || index >= rows) {
      Fail(c.node(), "row {} is not in [0, {})", index, rows);
    }
  }
}

// Copies row i of the packed tensor to or from row indices[i] of the padded.
template <bool pack>
void MoveRows(const KernelContext& c, const Tensor& padded,
              const Tensor& packed) {
  const size_t bytes = static_cast<size_t>(packed.shape().element_count(
                           1, packed.shape().rank())) *
                       DataTypeSize(packed.type());
  auto* outer = static_cast<std::byte*>(padded.data());
  auto* inner = static_cast<std::byte*>(packed.data());
  if (bytes == 0) return;
  for (size_t i = 0; i < static_cast<size_t>(packed.shape()[0]); ++i) {
    std::byte* row =
        outer + static_cast<size_t>(IndexAt(c.input(1), i)) * bytes;
    std::byte* dense = inner + i * bytes;
    pack ? std::memcpy(dense, row, bytes) : std::memcpy(row, dense, bytes);
  }
}

void PadAndUnflatten(const KernelContext& c) {
  CheckRows(c, c.output(0).shape());
  FillZero(c.output(0));
  MoveRows</*pack=*/false>(c, c.output(0), c.input(0));
}

void FlattenAndUnpad(const KernelContext& c) {
  const Shape& padded = c.input(0).shape();
  CheckRows(c, padded);
  MoveRows</*pack=*/true>(c, c.input(0), c.output(0));
  if (!c.has_output(1)) return;
  std::copy_n(padded.begin(), 2, c.out<int64_t>(1).begin());
}

// --- Gradients

void PadAndUnflattenGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var inputs[] = {c.dy(), c.x(1)};
  const DataType types[] = {b.type(c.x()), DataType::kInt64};
  c.Set(0, b.Ops("FlattenAndUnpad", inputs, types, {}, kMicrosoft)[0]);
}

void FlattenAndUnpadGradient(GradientContext& c) {
  const Var dims = c.AddedOutput(1, "unflatten_dims", DataType::kInt64);
  c.Set(0, c.build().MicrosoftOp("PadAndUnflatten", {c.dy(), c.x(1), dims}));
}

}  // namespace

extern constexpr OpDef kPadAndUnflatten = {
    .name = "PadAndUnflatten",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferPadAndUnflatten,
    .reference = ByteKernel<PadAndUnflatten>(),
    .value_inputs = {2},
    .gradient = Rule(PadAndUnflattenGradient),
    .stops_gradient = {1, 2}};

extern constexpr OpDef kFlattenAndUnpad = {
    .name = "FlattenAndUnpad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .outputs = {1, 2},
    .infer = InferFlattenAndUnpad,
    .reference = ByteKernel<FlattenAndUnpad>(),
    .gradient = Rule(FlattenAndUnpadGradient),
    .stops_gradient = {1}};

}  // namespace strop::ops
