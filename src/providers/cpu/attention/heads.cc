// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/attention/heads.h"

#include <algorithm>

#include "base/round.h"
#include "providers/cpu/scratch_layout.h"
#include "providers/cpu/simd/softmax.h"

namespace strop {
namespace {

// Measured: with fewer rows the products lose, with more the caches.
constexpr int64_t kBlockRows = 64;

bool HasWholeRows(const ops::MatrixStack& stack) {
  return stack.column_stride == 1 || stack.columns <= 1;
}

// The mask as heads: its batch axes, rows and columns, all with the steps
// that broadcasting makes.
HeadMatrices ReadMask(const Shape& mask, const ops::AttentionStacks& sizes) {
  const Shape scores = sizes.ScoresShape();
  const ops::Dims steps = ops::BroadcastStrides(mask, scores);
  ops::MatrixStack stack;
  stack.batch = sizes.batch;
  stack.batch_strides = steps;
  stack.row_stride = steps[scores.rank() - 2];
  return HeadMatrices(stack, sizes.batch);
}

}  // namespace

std::string AttentionHeads::WhyNot(const KernelRequest& request, size_t first,
                                   const Shape& y) {
  const TensorInfo& q = request.inputs[first].info;
  if (q.type != DataType::kFloat32) return DataTypeName(q.type);
  const ops::AttentionStacks s = ops::ReadAttention(
      request.node, q.shape, request.inputs[first + 1].info.shape,
      request.inputs[first + 2].info.shape);
  const bool fits = HasWholeRows(s.q) && HasWholeRows(s.k) &&
                    HasWholeRows(s.v) &&
                    HasWholeRows(ops::ReadStack(request.node, y, "permY"));
  if (!fits) return "rows with gaps";
  if (request.has_input(first + 3)) {
    const Shape& mask = request.inputs[first + 3].info.shape;
    const Shape scores = s.ScoresShape();
    const ops::Dims steps = ops::BroadcastStrides(mask, scores);
    if (steps[scores.rank() - 1] != 1 && s.keys() != 1) {
      return "a mask of shape " + mask.ToString();
    }
  }
  return {};
}

AttentionHeads::AttentionHeads(const KernelRequest& request, size_t first)
    : first_(first),
      sizes_(ops::ReadAttention(request.node, request.inputs[first].info.shape,
                                request.inputs[first + 1].info.shape,
                                request.inputs[first + 2].info.shape)),
      alpha_(request.node.Float("alpha", 1)),
      operands_{HeadMatrices(sizes_.q, sizes_.batch),
                HeadMatrices(sizes_.k, sizes_.batch),
                HeadMatrices(sizes_.v, sizes_.batch)},
      has_mask_(request.has_input(first + 3)),
      block_count_(CeilDiv(sizes_.rows(), kBlockRows)),
      // A step of a power of two would put the rows into the same few sets
      // of the first cache.
      score_step_(RoundUp<int64_t>(sizes_.keys(), 16) + 16),
      scores_(/*trans_b=*/true, sizes_.keys(), sizes_.depth(), step(1)) {
  if (has_mask_) {
    mask_ = ReadMask(request.inputs[first + 3].info.shape, sizes_);
  }
}

int64_t AttentionHeads::most_block_rows() const {
  return block_count_ == 0 ? 0 : CeilDiv(sizes_.rows(), block_count_);
}

int64_t AttentionHeads::RowOfBlock(int64_t block) const {
  return PartStart(sizes_.rows(), block_count_, block);
}

const float* AttentionHeads::Operand(const KernelContext& context, size_t i,
                                     int64_t head) const {
  return FloatsOf(context, first_ + i) + operands_[i].Offset(head);
}

void AttentionHeads::PackKeys(const KernelContext& context, int64_t head,
                              std::byte* packed) const {
  PackAll(scores_, Operand(context, 1, head), packed);
}

const float* AttentionHeads::MaskRows(const KernelContext& context,
                                      int64_t head, int64_t row) const {
  if (!has_mask_) return nullptr;
  return FloatsOf(context, first_ + 3) + mask_.Offset(head) +
         row * mask_.step();
}

int64_t AttentionHeads::OpenColumns(const float* mask, int64_t rows) const {
  if (mask == nullptr) return sizes_.keys();
  return CountOpenColumns({.data = mask,
                           .rows = rows,
                           .columns = sizes_.keys(),
                           .step = mask_.step()});
}

int64_t AttentionHeads::Probabilities(const KernelContext& context,
                                      int64_t head, int64_t block,
                                      const std::byte* packed_keys,
                                      float* p) const {
  const int64_t row = RowOfBlock(block);
  const int64_t rows = RowOfBlock(block + 1) - row;
  const float* const mask = MaskRows(context, head, row);
  const int64_t columns = OpenColumns(mask, rows);
  scores_.Run({.m = rows,
               .n = columns,
               .alpha = alpha_,
               .a = Operand(context, 0, head) + row * step(0),
               .a_row = step(0),
               .packed_b = packed_keys,
               .c = p,
               .ldc = score_step_});
  RunSoftmaxRows({.operation = SoftmaxOperation::kSoftmax,
                  .rows = rows,
                  .columns = columns,
                  .a = p,
                  .b = mask,
                  .b_step = mask_.step(),
                  .to = p,
                  .step = score_step_});
  return columns;
}

void PackAll(const PackedGemm& gemm, const float* b, std::byte* packed,
             int64_t k) {
  gemm.PackPanels(b, 0, gemm.panel_count(), packed, k);
}

}  // namespace strop
