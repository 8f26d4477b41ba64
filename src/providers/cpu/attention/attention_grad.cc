// SPDX-License-Identifier: Apache-2.0
//
// AttentionGrad, with P = softmax(alpha Q K' + mask):
//
//   dP = dY V'      dS = P (dP - sum(P dP)) along the rows
//   dQ = alpha dS K      dK = alpha dS' Q      dV = P' dY
//
// Where there are fewer heads than threads, a head's blocks are dealt out in
// slices, each with sums of dK and dV of its own, which are added up at the
// end.
#include <algorithm>
#include <memory>

#include "base/round.h"
#include "providers/cpu/attention/heads.h"
#include "providers/cpu/attention/kernels.h"
#include "providers/cpu/scratch_layout.h"
#include "providers/cpu/simd/softmax.h"

namespace strop {
namespace {

// A matrix that a block adds to.
struct Sums {
  float* data = nullptr;  // null: not wanted
  int64_t step = 0;
};

void FillZero(const Sums& sums, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows && sums.data != nullptr; ++i) {
    std::fill_n(sums.data + i * sums.step, columns, 0.0f);
  }
}

class AttentionGradKernel final : public Kernel {
 public:
  explicit AttentionGradKernel(const KernelRequest& request)
      : heads_(request, 1) {
    const OpNode& node = request.node;
    const ops::AttentionStacks& s = heads_.sizes();
    dy_ = HeadMatrices(
        ops::ReadStack(node, request.inputs[0].info.shape, "permY"), s.batch);
    constexpr std::string_view kPerms[] = {"permQ", "permK", "permV"};
    for (size_t i = 0; i < 3; ++i) {
      wanted_[i] = request.has_output(i);
      if (!wanted_[i]) continue;
      gradients_[i] = HeadMatrices(
          ops::ReadStack(node, request.outputs[i].shape, kPerms[i]), s.batch);
    }
    values_ = PackedGemm(true, s.keys(), s.width(), heads_.step(2));
    keys_ = PackedGemm(false, s.depth(), s.keys(), heads_.step(1));
    const int64_t rows = heads_.most_block_rows();
    query_rows_ = PackedGemm(false, s.depth(), rows, heads_.step(0));
    dy_rows_ = PackedGemm(false, s.width(), rows, dy_.step());
    ChooseSlices(request.num_threads);
    PlaceScratch();
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(parts_) * part_bytes_ + sums_bytes_;
  }
  double flops() const {
    const ops::AttentionStacks& s = heads_.sizes();
    const double one = 2.0 * static_cast<double>(heads_.count()) *
                       static_cast<double>(s.rows()) *
                       static_cast<double>(s.keys());
    const double depth = static_cast<double>(s.depth());
    const double width = static_cast<double>(s.width());
    const bool has_ds = wanted_[0] || wanted_[1];
    return one * (depth + (has_ds ? width : 0) + (wanted_[0] ? depth : 0) +
                  (wanted_[1] ? depth : 0) + (wanted_[2] ? width : 0));
  }

  void Run(const KernelContext& context) override {
    const double cost = flops() / static_cast<double>(parts_) / 50;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) RunPart(context, part);
    });
    if (slices_ > 1) AddSlices(context);
  }

 private:
  void ChooseSlices(int num_threads) {
    const int64_t count = std::max<int64_t>(1, heads_.count());
    slices_ = std::clamp<int64_t>(CeilDiv<int64_t>(num_threads, count), 1,
                                  std::max<int64_t>(1, heads_.block_count()));
    parts_ = std::clamp<int64_t>(count * slices_, 1, num_threads);
  }

  void PlaceScratch() {
    const ops::AttentionStacks& s = heads_.sizes();
    ScratchLayout layout;
    keys_of_scores_at_ = layout.Add(heads_.packed_keys_bytes());
    values_at_ = layout.Add(values_.packed_bytes());
    keys_at_ = layout.Add(keys_.packed_bytes());
    rows_at_ = layout.Add(
        std::max(query_rows_.packed_bytes(), dy_rows_.packed_bytes()));
    p_at_ = layout.Add(heads_.block_floats() * sizeof(float));
    ds_at_ = layout.Add(heads_.block_floats() * sizeof(float));
    part_bytes_ = layout.total();
    // Of all slices but the first: dK, then dV.
    slice_floats_ = s.keys() * (s.depth() + s.width());
    sums_bytes_ =
        static_cast<size_t>(heads_.count() * (slices_ - 1) * slice_floats_) *
        sizeof(float);
  }

  // dQ, dK or dV (0, 1, 2) of a head in the output.
  Sums Gradient(const KernelContext& context, size_t i, int64_t head) const {
    if (!wanted_[i]) return {};
    return {static_cast<float*>(context.output(i).data()) +
                gradients_[i].Offset(head),
            gradients_[i].step()};
  }

  // dK or dV (1, 2) of a slice of a head.
  Sums SliceSums(const KernelContext& context, size_t i, int64_t head,
                 int64_t slice) const {
    if (slice == 0 || !wanted_[i]) return Gradient(context, i, head);
    const ops::AttentionStacks& s = heads_.sizes();
    float* const sums =
        reinterpret_cast<float*>(context.scratch() +
                                 static_cast<size_t>(parts_) * part_bytes_) +
        (head * (slices_ - 1) + slice - 1) * slice_floats_;
    return i == 1 ? Sums{sums, s.depth()}
                  : Sums{sums + s.keys() * s.depth(), s.width()};
  }

  int64_t ColumnsOf(size_t i) const {
    return i == 2 ? heads_.sizes().width() : heads_.sizes().depth();
  }

  void RunPart(const KernelContext& context, int64_t part) const {
    std::byte* const scratch =
        context.scratch() + static_cast<size_t>(part) * part_bytes_;
    const int64_t all = heads_.count() * slices_;
    const int64_t last = PartStart(all, parts_, part + 1);
    for (int64_t i = PartStart(all, parts_, part); i < last; ++i) {
      RunSlice(context, i / slices_, i % slices_, scratch);
    }
  }

  void RunSlice(const KernelContext& context, int64_t head, int64_t slice,
                std::byte* scratch) const {
    heads_.PackKeys(context, head, scratch + keys_of_scores_at_);
    if (wanted_[0] || wanted_[1]) {
      PackAll(values_, heads_.Operand(context, 2, head), scratch + values_at_);
    }
    if (wanted_[0]) {
      PackAll(keys_, heads_.Operand(context, 1, head), scratch + keys_at_);
    }
    const Sums dk = SliceSums(context, 1, head, slice);
    const Sums dv = SliceSums(context, 2, head, slice);
    FillZero(dk, heads_.sizes().keys(), ColumnsOf(1));
    FillZero(dv, heads_.sizes().keys(), ColumnsOf(2));
    const int64_t blocks = heads_.block_count();
    const int64_t last = PartStart(blocks, slices_, slice + 1);
    for (int64_t i = PartStart(blocks, slices_, slice); i < last; ++i) {
      RunBlock(context, head, i, dk, dv, scratch);
    }
  }

  void RunBlock(const KernelContext& context, int64_t head, int64_t block,
                const Sums& dk, const Sums& dv, std::byte* scratch) const {
    float* const p = reinterpret_cast<float*>(scratch + p_at_);
    float* const ds = reinterpret_cast<float*>(scratch + ds_at_);
    const int64_t step = heads_.score_step();
    const int64_t row = heads_.RowOfBlock(block);
    const int64_t rows = heads_.RowOfBlock(block + 1) - row;
    const int64_t columns = heads_.Probabilities(
        context, head, block, scratch + keys_of_scores_at_, p);
    const float* const dy =
        FloatsOf(context, 0) + dy_.Offset(head) + row * dy_.step();
    if (dv.data != nullptr) {
      PackAll(dy_rows_, dy, scratch + rows_at_, rows);
      AddTransposed(dy_rows_, {.block = p, .rows = rows, .columns = columns},
                    scratch + rows_at_, dv);
    }
    if (!wanted_[0] && !wanted_[1]) return;
    values_.Run({.m = rows,
                 .n = columns,
                 .a = dy,
                 .a_row = dy_.step(),
                 .packed_b = scratch + values_at_,
                 .c = ds,
                 .ldc = step});
    RunSoftmaxRows({.operation = SoftmaxOperation::kSoftmaxGrad,
                    .rows = rows,
                    .columns = columns,
                    .a = ds,
                    .b = p,
                    .b_step = step,
                    .to = ds,
                    .step = step});
    if (const Sums dq = Gradient(context, 0, head); dq.data != nullptr) {
      keys_.Run({.m = rows,
                 .k = columns,
                 .alpha = heads_.alpha(),
                 .a = ds,
                 .a_row = step,
                 .packed_b = scratch + keys_at_,
                 .c = dq.data + row * dq.step,
                 .ldc = dq.step});
    }
    if (dk.data != nullptr) {
      PackAll(query_rows_,
              heads_.Operand(context, 0, head) + row * heads_.step(0),
              scratch + rows_at_, rows);
      AddTransposed(query_rows_,
                    {.block = ds,
                     .rows = rows,
                     .columns = columns,
                     .alpha = heads_.alpha()},
                    scratch + rows_at_, dk);
    }
  }

  struct ScoreBlock {
    const float* block = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    float alpha = 1;
  };

  // sums[0, columns) += alpha block' B, where B has the rows of the block.
  void AddTransposed(const PackedGemm& gemm, const ScoreBlock& a,
                     const std::byte* packed_b, const Sums& sums) const {
    gemm.Run({.m = a.columns,
              .k = a.rows,
              .alpha = a.alpha,
              .a = a.block,
              .a_row = 1,
              .a_k = heads_.score_step(),
              .packed_b = packed_b,
              .c = sums.data,
              .ldc = sums.step,
              .accumulate = true});
  }

  // In the order of the slices.
  void AddSlices(const KernelContext& context) const {
    const int64_t keys = heads_.sizes().keys();
    for (const size_t i : {1, 2}) {
      if (!wanted_[i]) continue;
      const int64_t n = ColumnsOf(i);
      context.ParallelFor(heads_.count() * keys,
                          static_cast<double>(n * slices_) / 8,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t at = begin; at < end; ++at) {
                              AddRow(context, i, at / keys, at % keys);
                            }
                          });
    }
  }

  void AddRow(const KernelContext& context, size_t i, int64_t head,
              int64_t row) const {
    const Sums total = Gradient(context, i, head);
    float* const to = total.data + row * total.step;
    for (int64_t slice = 1; slice < slices_; ++slice) {
      const Sums sums = SliceSums(context, i, head, slice);
      const float* const from = sums.data + row * sums.step;
      for (int64_t j = 0; j < ColumnsOf(i); ++j) to[j] += from[j];
    }
  }

  AttentionHeads heads_;
  HeadMatrices dy_;
  bool wanted_[3] = {};
  HeadMatrices gradients_[3];
  PackedGemm values_;  // dY V'
  PackedGemm keys_;    // dS K
  // dS' Q and P' dY, for a block of rows.
  PackedGemm query_rows_, dy_rows_;
  int64_t slices_ = 1;
  int64_t parts_ = 1;
  size_t keys_of_scores_at_ = 0;
  size_t values_at_ = 0;
  size_t keys_at_ = 0;
  size_t rows_at_ = 0;
  size_t p_at_ = 0;
  size_t ds_at_ = 0;
  size_t part_bytes_ = 0;
  int64_t slice_floats_ = 0;
  size_t sums_bytes_ = 0;
};

}  // namespace

KernelChoice ChooseAttentionGrad(const KernelRequest& request) {
  const std::string reason =
      AttentionHeads::WhyNot(request, 1, request.inputs[0].info.shape);
  if (!reason.empty()) return KernelChoice::Decline(reason);
  auto kernel = std::make_unique<AttentionGradKernel>(request);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.flops = kernel->flops();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
