// SPDX-License-Identifier: Apache-2.0
//
// Attention head by head, and each head by blocks of rows, so that no more of
// P = softmax(alpha Q K' + mask) exists than a block, which stays in cache;
// the idea is that of FlashAttention (Dao et al., 2022). A block holds whole
// rows, so that softmax and gradient are those of Softmax. The backward pass
// computes P again, from what the forward pass was given.
//
// A head is one index of the batch axes.
#pragma once

#include <cstddef>
#include <string>

#include "ops/fused/attention.h"
#include "providers/cpu/gemm/packed_gemm.h"
#include "strop/execution_provider.h"

namespace strop {

// Where the matrix of each head begins, and from row to row of it.
class HeadMatrices {
 public:
  HeadMatrices() = default;
  HeadMatrices(const ops::MatrixStack& stack, const Shape& batch)
      : stack_(stack), batch_(batch) {}

  int64_t step() const { return stack_.row_stride; }
  int64_t Offset(int64_t head) const {
    return ops::BatchOffset(stack_, batch_, head);
  }

 private:
  ops::MatrixStack stack_;
  Shape batch_;
};

// What the kernels of both passes share. Inputs Q, K, V and the mask are
// inputs `first` and on.
class AttentionHeads {
 public:
  // Why there is no kernel for the request; empty if there is one. `y`: the
  // shape of Y, or dY.
  static std::string WhyNot(const KernelRequest& request, size_t first,
                            const Shape& y);
  AttentionHeads(const KernelRequest& request, size_t first);

  const ops::AttentionStacks& sizes() const { return sizes_; }
  int64_t count() const { return sizes_.batch.element_count(); }
  float alpha() const { return alpha_; }

  // Rows [RowOfBlock(i), RowOfBlock(i + 1)) are block i.
  int64_t block_count() const { return block_count_; }
  int64_t most_block_rows() const;
  int64_t RowOfBlock(int64_t block) const;
  // From row to row of a block of scores, in elements.
  int64_t score_step() const { return score_step_; }
  size_t block_floats() const {
    return static_cast<size_t>(most_block_rows() * score_step_);
  }

  size_t packed_keys_bytes() const { return scores_.packed_bytes(); }
  void PackKeys(const KernelContext& context, int64_t head,
                std::byte* packed) const;
  // P of a block; returns how many columns of it there are: those behind are
  // 0, and are not written.
  int64_t Probabilities(const KernelContext& context, int64_t head,
                        int64_t block, const std::byte* packed_keys,
                        float* p) const;

  // The matrix of Q, K or V (0, 1, 2) of a head.
  const float* Operand(const KernelContext& context, size_t i,
                       int64_t head) const;
  int64_t step(size_t i) const { return operands_[i].step(); }

 private:
  int64_t OpenColumns(const float* mask, int64_t rows) const;
  const float* MaskRows(const KernelContext& context, int64_t head,
                        int64_t row) const;

  size_t first_;
  ops::AttentionStacks sizes_;
  float alpha_;
  HeadMatrices operands_[3];
  bool has_mask_;
  HeadMatrices mask_;
  int64_t block_count_;
  int64_t score_step_;
  PackedGemm scores_;
};

inline const float* FloatsOf(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.input(input).data());
}

// Packs all panels of B, or their first `k` steps, on this thread.
void PackAll(const PackedGemm& gemm, const float* b, std::byte* packed,
             int64_t k = kAllOfB);

}  // namespace strop
