// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/round.h"
#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/depthwise_loops.h"
#include "providers/cpu/conv/direct_loops.h"
#include "providers/cpu/conv/fused_conv.h"
#include "providers/cpu/conv/kernels.h"

namespace strop {
namespace {

std::string DepthwiseDeclines(const KernelRequest& request,
                              const ConvSpec& spec) {
  std::string other = ConvDeclines(request, spec);
  if (!other.empty()) return other;
  if (spec.groups == 1 || spec.group_channels() != 1 ||
      spec.group_filters() != 1) {
    return "not one filter for each channel";
  }
  if (spec.window.rank > 2) return "more than 2 spatial axes";
  if (spec.is_empty()) return "no elements";
  return {};
}

std::vector<DepthwiseSpan> Spans(const ops::Window& w, size_t axis) {
  std::vector<DepthwiseSpan> spans;
  for (int64_t o = 0; o < w.output[axis]; ++o) {
    const int64_t start = o * w.stride[axis] - w.pad_begin[axis];
    const int64_t d = w.dilation[axis];
    const int64_t first = start >= 0 ? 0 : CeilDiv(-start, d);
    const int64_t end =
        start >= w.input[axis] ? 0 : CeilDiv(w.input[axis] - start, d);
    spans.push_back({start, first, std::min(end, w.kernel[axis])});
  }
  return spans;
}

// Finds the columns whose windows lie inside.
void FindInner(DepthwisePlan& plan) {
  const auto inside = [&](int64_t o) {
    const DepthwiseSpan& column = plan.columns[static_cast<size_t>(o)];
    return column.first == 0 && column.last == plan.kernel_w;
  };
  const int64_t width = static_cast<int64_t>(plan.columns.size());
  int64_t o = 0;
  while (o < width && !inside(o)) ++o;
  plan.inner_begin = o;
  while (o < width && inside(o)) ++o;
  plan.inner_end = o;
}

DepthwisePlan MakePlan(const ConvSpec& spec, Layout layout) {
  const ops::Window& w = spec.window;
  const size_t last = w.rank - 1;
  DepthwisePlan plan;
  plan.layout = layout;
  plan.input_w = w.input[last];
  plan.kernel_w = w.kernel[last];
  plan.dilation_w = w.dilation[last];
  plan.stride_w = w.stride[last];
  plan.columns = Spans(w, last);
  plan.rows = {{0, 0, 1}};
  if (w.rank == 2) {
    plan.input_h = w.input[0];
    plan.kernel_h = w.kernel[0];
    plan.dilation_h = w.dilation[0];
    plan.rows = Spans(w, 0);
  }
  FindInner(plan);
  plan.zeros.resize(static_cast<size_t>(plan.input_w * plan.block()));
  return plan;
}

bool HasStrides(const ConvSpec& spec) {
  const ops::Window& w = spec.window;
  return w.stride[0] != 1 || (w.rank == 2 && w.stride[1] != 1);
}

// Without strides dX comes from dY as Y does from X, by the flipped kernel:
// element i of dX is the sum of w[k] dY[i + pad - k dilation].
ConvSpec Flipped(ConvSpec spec) {
  ops::Window& w = spec.window;
  std::swap(w.input, w.output);
  for (size_t i = 0; i < w.rank; ++i) {
    w.pad_begin[i] = (w.kernel[i] - 1) * w.dilation[i] - w.pad_begin[i];
  }
  return spec;
}

// Where the kernels find a block of channels of an image, and its weights.
class DepthwiseBase : public Kernel {
 public:
  DepthwiseBase(const ConvSpec& spec, Layout layout)
      : spec_(spec),
        plan_(MakePlan(spec, layout)),
        blocks_(CeilDiv(spec.channels, plan_.block())) {}

 protected:
  static const float* Input(const KernelContext& context, size_t i) {
    return static_cast<const float*>(context.input(i).data());
  }
  int64_t block_weights() const { return plan_.taps() * plan_.block(); }
  double cost() const {
    return spec_.flops() / static_cast<double>(spec_.batch * blocks_) / 20;
  }

  // packed[tap][channel] = w[channel][tap] for a block; zero padded.
  void PackBlock(const float* w, int64_t b, bool flipped, float* packed) const {
    const int64_t size = plan_.block(), taps = plan_.taps();
    const int64_t real = std::min(size, spec_.channels - b * size);
    std::fill_n(packed, taps * size, 0.0f);
    for (int64_t c = 0; c < real; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t from = flipped ? taps - 1 - tap : tap;
        packed[tap * size + c] = w[(b * size + c) * taps + from];
      }
    }
  }

  // Runs body(image * blocks + block, block) over all.
  template <class F>
  void ForEachBlock(const KernelContext& context, F&& body) const {
    context.ParallelFor(spec_.batch * blocks_, cost(),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            body(i, i % blocks_);
                          }
                        });
  }

  void PackAll(const KernelContext& context, const float* w,
               bool flipped = false) const {
    float* packed = reinterpret_cast<float*>(context.scratch());
    for (int64_t b = 0; b < blocks_; ++b) {
      PackBlock(w, b, flipped, packed + b * block_weights());
    }
  }

  ConvSpec spec_;
  DepthwisePlan plan_;
  int64_t blocks_;
};

class DepthwiseConv final : public DepthwiseBase {
 public:
  DepthwiseConv(const ConvSpec& spec, Layout layout, bool has_bias,
                std::optional<Bounds> bounds)
      : DepthwiseBase(spec, layout),
        has_bias_(has_bias),
        run_(GetDepthwiseForward(layout)) {
    if (bounds) plan_.bounds = *bounds;
  }

  size_t scratch_bytes() const {
    return static_cast<size_t>(blocks_ * (block_weights() + plan_.block())) *
           sizeof(float);
  }

  void Run(const KernelContext& context) override {
    PackAll(context, Input(context, 1));
    const float* weights = reinterpret_cast<float*>(context.scratch());
    const float* bias = has_bias_ ? PaddedBias(context) : nullptr;
    const float* x = Input(context, 0);
    float* y = static_cast<float*>(context.output(0).data());
    ForEachBlock(context, [&](int64_t i, int64_t b) {
      run_(plan_, x + i * plan_.input_count(), weights + b * block_weights(),
           bias ? bias + b * plan_.block() : nullptr,
           y + i * plan_.output_count());
    });
  }

 private:
  const float* PaddedBias(const KernelContext& context) const {
    float* bias =
        reinterpret_cast<float*>(context.scratch()) + blocks_ * block_weights();
    std::fill_n(bias, blocks_ * plan_.block(), 0.0f);
    std::copy_n(Input(context, 2), spec_.channels, bias);
    return bias;
  }

  bool has_bias_;
  DepthwiseForward run_;
};

class DepthwiseConvGrad final : public DepthwiseBase {
 public:
  DepthwiseConvGrad(const ConvGradSpec& grad, Layout layout)
      : DepthwiseBase(grad.conv, layout),
        grad_(grad),
        flips_(!HasStrides(grad.conv)),
        flipped_(flips_ ? MakePlan(Flipped(grad.conv), layout) : plan_),
        run_forward_(GetDepthwiseForward(layout)),
        run_backward_(GetDepthwiseBackward(layout)),
        run_weights_(GetDepthwiseWeights(layout)) {}

  // Weights, then the sums of dW.
  size_t scratch_bytes() const {
    return static_cast<size_t>(2 * blocks_ * block_weights()) * sizeof(float);
  }

  // A thread takes a block of channels through all images: dY, read for dX,
  // is still in its cache for dW. With few blocks dX is cut by images too.
  void Run(const KernelContext& context) override {
    const bool overwrite = grad_.Overwrites(context);
    const float* dy = Input(context, 0);
    if (grad_.has_dx) PackAll(context, Input(context, 2), flips_);
    const bool apart = grad_.has_dx && blocks_ < context.num_threads();
    if (apart) {
      ForEachBlock(context,
                   [&](int64_t i, int64_t b) { RunDx(context, i, b); });
    }
    if (grad_.has_dw || !apart) RunBlocks(context, !apart, overwrite);
    if (grad_.has_db) {
      BiasGradient(context, grad_.dy_shape, plan_.layout, dy, overwrite,
                   grad_.db(context));
    }
  }

 private:
  void RunDx(const KernelContext& context, int64_t i, int64_t b) const {
    const float* weights =
        reinterpret_cast<float*>(context.scratch()) + b * block_weights();
    const float* dy = Input(context, 0) + i * plan_.output_count();
    float* dx =
        static_cast<float*>(context.output(0).data()) + i * plan_.input_count();
    if (flips_) {
      run_forward_(flipped_, dy, weights, /*bias=*/nullptr, dx);
    } else {
      run_backward_(plan_, dy, weights, dx);
    }
  }

  void RunBlocks(const KernelContext& context, bool dx, bool overwrite) const {
    float* sums =
        reinterpret_cast<float*>(context.scratch()) + blocks_ * block_weights();
    dx = dx && grad_.has_dx;
    context.ParallelFor(
        blocks_, 2 * cost() * static_cast<double>(spec_.batch),
        [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            float* sum = sums + b * block_weights();
            std::fill_n(sum, block_weights(), 0.0f);
            for (int64_t n = 0; n < spec_.batch; ++n) {
              const int64_t i = n * blocks_ + b;
              if (dx) RunDx(context, i, b);
              if (!grad_.has_dw) continue;
              run_weights_(plan_, Input(context, 1) + i * plan_.input_count(),
                           Input(context, 0) + i * plan_.output_count(), sum);
            }
            if (grad_.has_dw) StoreDw(b, sum, overwrite, grad_.dw(context));
          }
        });
  }

  void StoreDw(int64_t b, const float* sum, bool overwrite, float* dw) const {
    const int64_t size = plan_.block(), taps = plan_.taps();
    const int64_t real = std::min(size, spec_.channels - b * size);
    for (int64_t c = 0; c < real; ++c) {
      float* to = dw + (b * size + c) * taps;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float value = sum[tap * size + c];
        to[tap] = overwrite ? value : to[tap] + value;
      }
    }
  }

  ConvGradSpec grad_;
  bool flips_;
  DepthwisePlan flipped_;  // from dY to dX
  DepthwiseForward run_forward_;
  DepthwiseBackward run_backward_;
  DepthwiseWeights run_weights_;
};

Layout BlocksFor(Layout left) {
  return left == Layout::kPlain ? GetDirectLayout() : left;
}

}  // namespace

KernelChoice ChooseDepthwiseConv(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const ConvSpec spec =
      MakeConvSpec(request.node, x.info.shape, request.inputs[1].info.shape);
  std::string reason = DepthwiseDeclines(request, spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  std::optional<Bounds> bounds;
  if (request.op.name == "FusedConv") {
    bounds = FusedBounds(request);
    if (!bounds) return KernelChoice::Decline("an addend, or not Relu or Clip");
  }
  const Layout blocks = BlocksFor(x.layout);
  auto kernel = std::make_unique<DepthwiseConv>(spec, blocks,
                                                request.has_input(2), bounds);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts = {blocks, Layout::kPlain, Layout::kPlain};
  choice.output_layouts = {blocks};
  choice.flops = spec.flops();
  return choice;
}

KernelChoice ChooseDepthwiseConvGrad(const KernelRequest& request) {
  const ConvGradSpec grad = MakeConvGradSpec(request);
  std::string reason = DepthwiseDeclines(request, grad.conv);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Layout blocks = BlocksFor(request.inputs[1].layout);
  auto kernel = std::make_unique<DepthwiseConvGrad>(grad, blocks);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts = {blocks, blocks};
  choice.input_layouts.resize(request.inputs.size(), Layout::kPlain);
  choice.output_layouts = {blocks, Layout::kPlain, Layout::kPlain};
  choice.flops = grad.flops();
  return choice;
}

}  // namespace strop
