// SPDX-License-Identifier: Apache-2.0
//
// Attention: Y = softmax(alpha Q K' + mask) V.
#include <algorithm>
#include <memory>

#include "providers/cpu/attention/heads.h"
#include "providers/cpu/attention/kernels.h"
#include "providers/cpu/scratch_layout.h"

namespace strop {
namespace {

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const KernelRequest& request)
      : heads_(request, 0),
        y_(ops::ReadStack(request.node, request.outputs[0].shape, "permY"),
           heads_.sizes().batch),
        values_(/*trans_b=*/false, heads_.sizes().width(),
                heads_.sizes().keys(), heads_.step(2)) {
    const int64_t blocks = heads_.count() * heads_.block_count();
    parts_ = std::clamp<int64_t>(blocks, 1, request.num_threads);
    ScratchLayout layout;
    keys_at_ = layout.Add(heads_.packed_keys_bytes());
    values_at_ = layout.Add(values_.packed_bytes());
    p_at_ = layout.Add(heads_.block_floats() * sizeof(float));
    part_bytes_ = layout.total();
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(parts_) * part_bytes_;
  }
  double flops() const {
    const ops::AttentionStacks& s = heads_.sizes();
    return 2.0 * static_cast<double>(heads_.count()) *
           static_cast<double>(s.rows()) * static_cast<double>(s.keys()) *
           static_cast<double>(s.depth() + s.width());
  }

  void Run(const KernelContext& context) override {
    const double cost = flops() / static_cast<double>(parts_) / 50;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) RunPart(context, part);
    });
  }

 private:
  void RunPart(const KernelContext& context, int64_t part) const {
    std::byte* const scratch =
        context.scratch() + static_cast<size_t>(part) * part_bytes_;
    const int64_t blocks = heads_.block_count();
    const int64_t all = heads_.count() * blocks;
    const int64_t last = PartStart(all, parts_, part + 1);
    int64_t packed = -1;  // the head
    for (int64_t i = PartStart(all, parts_, part); i < last; ++i) {
      const int64_t head = i / blocks;
      if (head != packed) {
        heads_.PackKeys(context, head, scratch + keys_at_);
        PackAll(values_, heads_.Operand(context, 2, head),
                scratch + values_at_);
        packed = head;
      }
      RunBlock(context, head, i % blocks, scratch);
    }
  }

  void RunBlock(const KernelContext& context, int64_t head, int64_t block,
                std::byte* scratch) const {
    float* const p = reinterpret_cast<float*>(scratch + p_at_);
    const int64_t columns =
        heads_.Probabilities(context, head, block, scratch + keys_at_, p);
    const int64_t row = heads_.RowOfBlock(block);
    float* const y = static_cast<float*>(context.output(0).data());
    values_.Run({.m = heads_.RowOfBlock(block + 1) - row,
                 .k = columns,
                 .a = p,
                 .a_row = heads_.score_step(),
                 .packed_b = scratch + values_at_,
                 .c = y + y_.Offset(head) + row * y_.step(),
                 .ldc = y_.step()});
  }

  AttentionHeads heads_;
  HeadMatrices y_;
  PackedGemm values_;
  int64_t parts_ = 1;
  size_t keys_at_ = 0;
  size_t values_at_ = 0;
  size_t p_at_ = 0;
  size_t part_bytes_ = 0;
};

}  // namespace

KernelChoice ChooseAttention(const KernelRequest& request) {
  const std::string reason =
      AttentionHeads::WhyNot(request, 0, request.outputs[0].shape);
  if (!reason.empty()) return KernelChoice::Decline(reason);
  auto kernel = std::make_unique<AttentionKernel>(request);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.flops = kernel->flops();
  choice.kernel = std::move(kernel);
  return choice;
}

}  // namespace strop
