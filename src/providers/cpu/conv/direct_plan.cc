// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/direct_plan.h"

#include <algorithm>

namespace strop {
namespace {

// The two spatial axes; the first one of a single axis has size 1.
struct Axes2 {
  int64_t h, w;
  Axes2(const ops::Window& window, const ops::Window::Axes& axes,
        int64_t missing)
      : h(window.rank == 2 ? axes[0] : missing), w(axes[window.rank - 1]) {}
};

double PassCost(const DirectPlan& plan) {
  return 2.0 / 40 * static_cast<double>(plan.packed_count()) *
         static_cast<double>(plan.output_size());
}

}  // namespace

std::string DirectDeclines(const ConvSpec& spec) {
  if (spec.groups != 1) return "groups";
  if (spec.window.rank > 2) return "more than 2 spatial axes";
  if (spec.is_empty()) return "no elements";
  if (spec.window.kernel[spec.window.rank - 1] > kMaxDirectTaps) {
    return "a wide kernel";
  }
  return {};
}

bool DirectBeatsBlocks(const ConvSpec& spec, int64_t block) {
  // Kernels for the first layer of a net do without the padding of x.
  constexpr int64_t kFewChannels = 4;
  const bool pads_x = spec.channels > kFewChannels && spec.channels < block;
  return (pads_x || spec.filters <= 8) && DirectDeclines(spec).empty();
}

DirectPass PlanForward(const ConvSpec& spec, Layout x, Layout y) {
  const ops::Window& window = spec.window;
  const Axes2 kernel(window, window.kernel, 1);
  const Axes2 output(window, window.output, 1);
  const Axes2 stride(window, window.stride, 1);
  const Axes2 dilation(window, window.dilation, 1);
  const Axes2 input(window, window.input, 1);
  const Axes2 begin(window, window.pad_begin, 0);
  DirectPass pass;
  pass.plan = {
      .layout = y,
      .channels = spec.channels,
      .filters = spec.filters,
      .kernel_h = kernel.h,
      .kernel_w = kernel.w,
      .output_h = output.h,
      .output_w = output.w,
      .stride_h = stride.h,
      .stride_w = stride.w,
      .dilation_h = dilation.h,
      .dilation_w = dilation.w,
      .padded_h = (output.h - 1) * stride.h + (kernel.h - 1) * dilation.h + 1,
      .padded_w = (output.w - 1) * stride.w + (kernel.w - 1) * dilation.w + 1,
      .row_offsets = {}};
  pass.padding = {.layout = x,
                  .channels = spec.channels,
                  .height = input.h,
                  .width = input.w,
                  .begin_h = begin.h,
                  .begin_w = begin.w,
                  .padded_h = pass.plan.padded_h,
                  .padded_w = pass.plan.padded_w};
  FinishPlan(pass.plan);
  return pass;
}

// With the tap k' = kernel - 1 - k, element p of dX reads q = p + k' *
// dilation of a dY whose element o lies at
//   q = o * stride + (kernel - 1) * dilation - pad_begin.
DirectPass PlanBackward(const ConvSpec& spec, Layout x, Layout dy) {
  const ops::Window& window = spec.window;
  const Axes2 kernel(window, window.kernel, 1);
  const Axes2 output(window, window.output, 1);
  const Axes2 stride(window, window.stride, 1);
  const Axes2 dilation(window, window.dilation, 1);
  const Axes2 input(window, window.input, 1);
  const Axes2 begin(window, window.pad_begin, 0);
  DirectPass pass;
  pass.plan = {.layout = x,
               .channels = spec.filters,
               .filters = spec.channels,
               .kernel_h = kernel.h,
               .kernel_w = kernel.w,
               .output_h = input.h,
               .output_w = input.w,
               .dilation_h = dilation.h,
               .dilation_w = dilation.w,
               .padded_h = input.h + (kernel.h - 1) * dilation.h,
               .padded_w = input.w + (kernel.w - 1) * dilation.w,
               .row_offsets = {}};
  pass.padding = {.layout = dy,
                  .channels = spec.filters,
                  .height = output.h,
                  .width = output.w,
                  .begin_h = (kernel.h - 1) * dilation.h - begin.h,
                  .begin_w = (kernel.w - 1) * dilation.w - begin.w,
                  .step_h = stride.h,
                  .step_w = stride.w,
                  .padded_h = pass.plan.padded_h,
                  .padded_w = pass.plan.padded_w};
  FinishPlan(pass.plan);
  return pass;
}

void PackForward(const KernelContext& context, const DirectPlan& plan,
                 const float* w, float* packed) {
  const int64_t block = plan.block();
  const int64_t count = plan.rows() * plan.kernel_w;
  context.ParallelFor(
      plan.blocks(), static_cast<double>(count * block),
      [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          float* to = packed + b * plan.packed_block();
          const int64_t real = std::min(block, plan.filters - b * block);
          const float* from = w + b * block * count;
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t m = 0; m < real; ++m) {
              to[i * block + m] = from[m * count + i];
            }
            std::fill(to + i * block + real, to + (i + 1) * block, 0.0f);
          }
        }
      });
}

// w is (plan.channels, plan.filters, kernel).
void PackBackward(const KernelContext& context, const DirectPlan& plan,
                  const float* w, float* packed) {
  const int64_t block = plan.block();
  const int64_t taps = plan.kernel_h * plan.kernel_w;
  context.ParallelFor(
      plan.blocks(), static_cast<double>(plan.packed_block()),
      [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          float* to = packed + b * plan.packed_block();
          const int64_t real = std::min(block, plan.filters - b * block);
          for (int64_t c = 0; c < plan.channels; ++c) {
            const float* from = w + (c * plan.filters + b * block) * taps;
            for (int64_t k = taps; k-- > 0; to += block) {
              for (int64_t m = 0; m < real; ++m) to[m] = from[m * taps + k];
              std::fill(to + real, to + block, 0.0f);
            }
          }
        }
      });
}

void UnpackSum(const KernelContext& context, const DirectPlan& plan,
               const float* packed, int64_t count, bool overwrite, float* w) {
  const int64_t block = plan.block();
  const int64_t size = plan.rows() * plan.kernel_w;
  context.ParallelFor(plan.filters, static_cast<double>(size * count),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t m = begin; m < end; ++m) {
                          const float* from = packed +
                                              m / block * plan.packed_block() +
                                              m % block;
                          float* to = w + m * size;
                          for (int64_t i = 0; i < size; ++i) {
                            float sum = from[i * block];
                            for (int64_t p = 1; p < count; ++p) {
                              sum += from[p * plan.packed_count() + i * block];
                            }
                            to[i] = overwrite ? sum : to[i] + sum;
                          }
                        }
                      });
}

DirectRunner::DirectRunner(const DirectPass& pass, int64_t batch,
                           int num_threads)
    : pass_(pass), run_(GetDirectForward(pass.plan.layout)), batch_(batch) {
  // Pairs of blocks are the loops' unit.
  if (batch < num_threads) groups_ = (pass.plan.blocks() + 1) / 2;
  parts_ = std::min<int64_t>(num_threads, batch * groups_);
}

void DirectRunner::Run(const KernelContext& context, const float* x,
                       const float* w, const float* bias, float* y,
                       float* scratch) const {
  const double cost = PassCost(pass_.plan) * static_cast<double>(batch_) /
                      static_cast<double>(parts_);
  context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      RunPart(part, x, w, bias, y, scratch + part * pass_.plan.padded_count());
    }
  });
}

void DirectRunner::RunPart(int64_t part, const float* x, const float* w,
                           const float* bias, float* y, float* padded) const {
  const DirectPlan& plan = pass_.plan;
  const bool identity = pass_.padding.IsIdentity();
  const int64_t units = batch_ * groups_;
  const int64_t last = PartStart(units, parts_, part + 1);
  int64_t padded_image = -1;
  for (int64_t u = PartStart(units, parts_, part); u < last; ++u) {
    const int64_t n = u / groups_, group = u % groups_;
    const float* image = x + n * pass_.padding.stored_count();
    if (!identity && n != padded_image) {
      PadImage(pass_.padding, image, padded);
      padded_image = n;
    }
    const int64_t first = groups_ == 1 ? 0 : group * 2;
    const int64_t end =
        groups_ == 1 ? plan.blocks() : std::min(first + 2, plan.blocks());
    run_(plan, first, end, identity ? image : padded, w, bias,
         y + n * plan.blocks() * plan.output_size() * plan.block());
  }
}

}  // namespace strop
