// SPDX-License-Identifier: Apache-2.0
#include "runtime/stack.h"

#include <cstring>
#include <string>
#include <vector>

#include "base/throw.h"

namespace strop {
namespace {

// Copies between a tensor with `axis` and the piece at `index` of it.
template <class Copy>
void ForEachRun(const Shape& whole, size_t element_bytes, size_t axis,
                int64_t index, Copy copy) {
  const int64_t outer = whole.element_count(0, axis);
  const size_t run =
      static_cast<size_t>(whole.element_count(axis + 1, whole.rank())) *
      element_bytes;
  if (run == 0) return;
  for (int64_t o = 0; o < outer; ++o) {
    copy(static_cast<size_t>(o * whole[axis] + index) * run,
         static_cast<size_t>(o) * run, run);
  }
}

}  // namespace

HeldTensor SliceOf(StepBudget& budget, const Tensor& x, size_t axis,
                   int64_t index) {
  std::vector<int64_t> dims(x.shape().begin(), x.shape().end());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  HeldTensor piece(budget, x.type(), Shape(dims));
  const auto* from = static_cast<const std::byte*>(x.data());
  auto* to = static_cast<std::byte*>(piece.view().data());
  ForEachRun(x.shape(), DataTypeSize(x.type()), axis, index,
             [&](size_t in_whole, size_t in_piece, size_t bytes) {
               std::memcpy(to + in_piece, from + in_whole, bytes);
             });
  return piece;
}

HeldTensor Stack(StepBudget& budget, std::span<const HeldTensor> pieces,
                 size_t axis, const std::string& name) {
  STROP_CHECK(!pieces.empty() && axis <= pieces[0].shape().rank());
  const DataType type = pieces[0].type();
  const Shape& shape = pieces[0].shape();
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis),
              static_cast<int64_t>(pieces.size()));
  HeldTensor whole(budget, type, Shape(dims));
  auto* to = static_cast<std::byte*>(whole.view().data());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type() != type || !(pieces[i].shape() == shape)) {
      Throw(ErrorCode::kInvalidArgument,
            "\"{}\" is stacked over iterations, but it is {} of shape {} in "
            "the first and {} of shape {} in iteration {}",
            name, DataTypeName(type), shape.ToString(),
            DataTypeName(pieces[i].type()), pieces[i].shape().ToString(), i);
    }
    const auto* from = static_cast<const std::byte*>(pieces[i].view().data());
    ForEachRun(whole.shape(), DataTypeSize(type), axis, static_cast<int64_t>(i),
               [&](size_t in_whole, size_t in_piece, size_t bytes) {
                 std::memcpy(to + in_whole, from + in_piece, bytes);
               });
  }
  return whole;
}

}  // namespace strop
