// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/conv/lane_sum.h"
#include "providers/cpu/conv/pool_plan.h"

namespace strop {
namespace {

// Runs body(image, block) over all blocks of channels.
template <class F>
void ForEachBlock(const KernelContext& context, const PoolPlan& plan,
                  double cost, F&& body) {
  const int64_t blocks = plan.blocks();
  context.ParallelFor(plan.batch * blocks,
                      cost * static_cast<double>(BlockSize(plan.layout)),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          body(i / blocks, i % blocks);
                        }
                      });
}

// Elements of the plan's tensors before a block of channels.
int64_t InputOffset(const PoolPlan& plan, int64_t n, int64_t block) {
  return (n * plan.blocks() + block) * plan.input_size * BlockSize(plan.layout);
}
int64_t OutputOffset(const PoolPlan& plan, int64_t n, int64_t block) {
  return (n * plan.blocks() + block) * plan.output_size *
         BlockSize(plan.layout);
}

// Channels of the block that are there.
int64_t RealLanes(const PoolPlan& plan, int64_t block) {
  const int64_t size = BlockSize(plan.layout);
  return std::min(size, plan.channels - block * size);
}

// The offset in the plain tensor of the first element of a block.
int64_t PlainOffset(const PoolPlan& plan, int64_t n, int64_t block) {
  return (n * plan.channels + block * BlockSize(plan.layout)) * plan.input_size;
}

class MaxPoolKernel final : public Kernel {
 public:
  explicit MaxPoolKernel(PoolPlan plan)
      : plan_(std::move(plan)), run_(GetMaxPool(plan_.layout)) {}

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    int64_t* index = context.has_output(1)
                         ? static_cast<int64_t*>(context.output(1).data())
                         : nullptr;
    ForEachBlock(context, plan_, 0.5 * static_cast<double>(plan_.input_size),
                 [&](int64_t n, int64_t block) {
                   const int64_t to = OutputOffset(plan_, n, block);
                   run_(plan_, x + InputOffset(plan_, n, block), y + to,
                        index ? index + to : nullptr,
                        PlainOffset(plan_, n, block), RealLanes(plan_, block));
                 });
  }

 private:
  PoolPlan plan_;
  MaxPoolFunction run_;
};

// dX = 0, then dX[Indices[i]] += dY[i]
class MaxPoolGradKernel final : public Kernel {
 public:
  explicit MaxPoolGradKernel(PoolPlan plan) : plan_(std::move(plan)) {}

  void Run(const KernelContext& context) override {
    const float* dy = static_cast<const float*>(context.input(0).data());
    const int64_t* index = static_cast<const int64_t*>(context.input(1).data());
    float* dx = static_cast<float*>(context.output(0).data());
    ForEachBlock(context, plan_, 0.5 * static_cast<double>(plan_.input_size),
                 [&](int64_t n, int64_t block) {
                   const int64_t from = OutputOffset(plan_, n, block);
                   RunBlock(context, n, block, dy + from, index + from,
                            dx + InputOffset(plan_, n, block));
                 });
  }

 private:
  void RunBlock(const KernelContext& context, int64_t n, int64_t block,
                const float* dy, const int64_t* index, float* dx) const {
    const int64_t lanes = RealLanes(plan_, block);
    const int64_t base = PlainOffset(plan_, n, block);
    switch (plan_.layout) {
      case Layout::kPlain:
        return Scatter<1>(context, base, 1, dy, index, dx);
      case Layout::kBlocked8:
        return Scatter<8>(context, base, lanes, dy, index, dx);
      case Layout::kBlocked16:
        return Scatter<16>(context, base, lanes, dy, index, dx);
    }
  }

  // A block of channels, of which `lanes` are there; the first of them begins
  // at index `base`.
  template <int64_t kBlock>
  void Scatter(const KernelContext& context, int64_t base, int64_t lanes,
               const float* dy, const int64_t* index, float* dx) const {
    const int64_t input_size = plan_.input_size;
    const int64_t output_size = plan_.output_size;
    std::fill_n(dx, input_size * kBlock, 0.0f);
    for (int64_t o = 0; o < output_size; ++o) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t at = index[o * kBlock + lane];
        const int64_t position = at - base - lane * input_size;
        if (position < 0 || position >= input_size) [[unlikely]] {
          if (at == -1) continue;  // a window without a cell
          context.node().Fail("an index does not point into its own plane");
        }
        dx[position * kBlock + lane] += dy[o * kBlock + lane];
      }
    }
  }

  PoolPlan plan_;
};

// AveragePool and its gradient: one input, one output.
class AveragePoolKernel final : public Kernel {
 public:
  AveragePoolKernel(PoolPlan plan, AveragePoolFunction run, bool backward)
      : plan_(std::move(plan)), run_(run), backward_(backward) {}

  void Run(const KernelContext& context) override {
    const float* from = static_cast<const float*>(context.input(0).data());
    float* to = static_cast<float*>(context.output(0).data());
    ForEachBlock(context, plan_, 0.5 * static_cast<double>(plan_.input_size),
                 [&](int64_t n, int64_t block) {
                   const int64_t in = InputOffset(plan_, n, block);
                   const int64_t out = OutputOffset(plan_, n, block);
                   run_(plan_, from + (backward_ ? out : in),
                        to + (backward_ ? in : out));
                 });
  }

 private:
  PoolPlan plan_;
  AveragePoolFunction run_;
  bool backward_;
};

class GlobalAveragePoolKernel final : public Kernel {
 public:
  GlobalAveragePoolKernel(const Shape& x, Layout layout)
      : images_(x[0]),
        channels_(x[1]),
        positions_(x.element_count(2, x.rank())),
        layout_(layout) {}

  void Run(const KernelContext& context) override {
    const int64_t block = BlockSize(layout_);
    const int64_t blocks = CeilDiv(channels_, block);
    const double cost = 0.2 * static_cast<double>(positions_ * block);
    context.ParallelFor(images_ * blocks, cost,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            RunBlock(context, i / blocks, i % blocks, blocks);
                          }
                        });
  }

 private:
  void RunBlock(const KernelContext& context, int64_t n, int64_t block,
                int64_t blocks) const {
    const int64_t size = BlockSize(layout_);
    const float* x = static_cast<const float*>(context.input(0).data()) +
                     (n * blocks + block) * size * positions_;
    float* y = static_cast<float*>(context.output(0).data()) + n * channels_ +
               block * size;
    double sums[16] = {};
    switch (layout_) {
      case Layout::kPlain:
        sums[0] = SumRow(x, positions_);
        break;
      case Layout::kBlocked8:
        SumLanes<8>(x, positions_, sums);
        break;
      case Layout::kBlocked16:
        SumLanes<16>(x, positions_, sums);
        break;
    }
    const int64_t lanes = std::min(size, channels_ - block * size);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      y[lane] =
          static_cast<float>(sums[lane] / static_cast<double>(positions_));
    }
  }

  int64_t images_, channels_, positions_;
  Layout layout_;
};

// The plan of a node whose forward input has shape x; null and a reason in
// `choice` where the kernels do not serve.
std::optional<PoolPlan> PlanOrDecline(const KernelRequest& request,
                                      const Shape& x, Layout layout,
                                      KernelChoice& choice) {
  const DataType type = request.inputs[0].info.type;
  if (type != DataType::kFloat32) {
    choice.reason = DataTypeName(type);
    return std::nullopt;
  }
  auto plan = MakePoolPlan(request.node, x, layout);
  if (!plan) {
    choice.reason = "more than 3 spatial axes, or a plane of 2^31 elements";
  } else if (request.node.Int("storage_order", 0) != 0) {
    choice.reason = "column-major indices";
    plan.reset();
  } else if (plan->has_empty_window) {
    // Padding lanes would come out as -infinity.
    plan->layout = Layout::kPlain;
  }
  return plan;
}

}  // namespace

KernelChoice ChooseMaxPool(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  KernelChoice choice;
  auto plan = PlanOrDecline(request, x.info.shape, x.layout, choice);
  if (!plan) return choice;
  const Layout layout = plan->layout;
  choice.kernel = std::make_unique<MaxPoolKernel>(std::move(*plan));
  choice.input_layouts = {layout};
  choice.output_layouts = {layout, layout};
  return choice;
}

KernelChoice ChooseMaxPoolGrad(const KernelRequest& request) {
  // The forward kernel left the indices in its layout.
  const Layout left = request.inputs[1].layout;
  KernelChoice choice;
  auto plan =
      PlanOrDecline(request, request.inputs[2].info.shape, left, choice);
  if (!plan) return choice;
  const Layout layout = plan->layout;
  choice.kernel = std::make_unique<MaxPoolGradKernel>(std::move(*plan));
  choice.input_layouts = {layout, layout, request.inputs[2].layout};
  choice.output_layouts = {layout};
  return choice;
}

KernelChoice ChooseAveragePool(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  KernelChoice choice;
  auto plan = PlanOrDecline(request, x.info.shape, x.layout, choice);
  if (!plan) return choice;
  const Layout layout = plan->layout;
  choice.kernel = std::make_unique<AveragePoolKernel>(
      std::move(*plan), GetAveragePool(layout), /*backward=*/false);
  choice.input_layouts = {layout};
  choice.output_layouts = {layout};
  return choice;
}

KernelChoice ChooseAveragePoolGrad(const KernelRequest& request) {
  const KernelInput& dy = request.inputs[0];
  KernelChoice choice;
  auto plan =
      PlanOrDecline(request, request.inputs[1].info.shape, dy.layout, choice);
  if (!plan) return choice;
  const Layout layout = plan->layout;
  choice.kernel = std::make_unique<AveragePoolKernel>(
      std::move(*plan), GetAveragePoolGrad(layout), /*backward=*/true);
  choice.input_layouts = {layout, request.inputs[1].layout};
  choice.output_layouts = {layout};
  return choice;
}

KernelChoice ChooseGlobalAveragePool(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  KernelChoice choice;
  choice.kernel =
      std::make_unique<GlobalAveragePoolKernel>(x.info.shape, x.layout);
  choice.input_layouts = {x.layout};
  choice.output_layouts = {Layout::kPlain};
  return choice;
}

}  // namespace strop
