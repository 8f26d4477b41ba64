// SPDX-License-Identifier: Apache-2.0
//
// Convolution without groups on blocked outputs by loops over vectors of
// filters (direct_loops.h). Unlike oneDNN's kernels it spends no time on
// channels that pad the last block of the input.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/direct_plan.h"
#include "providers/cpu/conv/kernels.h"

namespace strop {
namespace {

const float* Input(const KernelContext& context, size_t i) {
  return static_cast<const float*>(context.input(i).data());
}

class DirectConv final : public Kernel {
 public:
  DirectConv(const ConvSpec& spec, Layout x, Layout y, bool has_bias,
             int num_threads)
      : pass_(PlanForward(spec, x, y)),
        runner_(pass_, spec.batch, num_threads),
        has_bias_(has_bias),
        weights_(scratch_.AddFloats(pass_.plan.packed_count())),
        bias_(scratch_.AddFloats(pass_.plan.blocks() * pass_.plan.block())),
        padded_(scratch_.AddFloats(runner_.scratch_count())) {}

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const DirectPlan& plan = pass_.plan;
    float* weights = FloatsAt(context, weights_);
    PackForward(context, plan, Input(context, 1), weights);
    float* bias = nullptr;
    if (has_bias_) {
      bias = FloatsAt(context, bias_);
      std::fill_n(bias, plan.blocks() * plan.block(), 0.0f);
      std::copy_n(Input(context, 2), plan.filters, bias);
    }
    runner_.Run(context, Input(context, 0), weights, bias,
                static_cast<float*>(context.output(0).data()),
                FloatsAt(context, padded_));
  }

 private:
  DirectPass pass_;
  DirectRunner runner_;
  bool has_bias_;
  ScratchLayout scratch_;
  size_t weights_, bias_, padded_;
};

class DirectConvGrad final : public Kernel {
 public:
  DirectConvGrad(const ConvGradSpec& grad, Layout x, Layout dx, Layout dy,
                 int num_threads)
      : grad_(grad), dy_layout_(dy) {
    const ConvSpec& spec = grad.conv;
    if (grad.has_dx) {
      dx_ = PlanBackward(spec, dx, dy);
      dx_runner_ = DirectRunner(dx_, spec.batch, num_threads);
      weights_ = scratch_.AddFloats(dx_.plan.packed_count());
      dx_padded_ = scratch_.AddFloats(dx_runner_.scratch_count());
    }
    if (grad.has_dw) {
      dw_ = PlanForward(spec, x, dy);
      run_weights_ = GetDirectWeights(dy);
      parts_ = std::min<int64_t>(num_threads, spec.batch);
      sums_ = scratch_.AddFloats(parts_ * dw_.plan.packed_count());
      if (!dw_.padding.IsIdentity()) {
        dw_padded_ = scratch_.AddFloats(parts_ * dw_.plan.padded_count());
      }
    }
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const bool overwrite = grad_.Overwrites(context);
    if (grad_.has_dx) {
      float* weights = FloatsAt(context, weights_);
      PackBackward(context, dx_.plan, Input(context, 2), weights);
      dx_runner_.Run(context, Input(context, 0), weights, /*bias=*/nullptr,
                     static_cast<float*>(context.output(0).data()),
                     FloatsAt(context, dx_padded_));
    }
    if (grad_.has_dw) RunDw(context, overwrite);
    if (grad_.has_db) {
      BiasGradient(context, grad_.dy_shape, dy_layout_, Input(context, 0),
                   overwrite, grad_.db(context));
    }
  }

 private:
  void RunDw(const KernelContext& context, bool overwrite) {
    float* sums = FloatsAt(context, sums_);
    const double cost = grad_.conv.flops() / static_cast<double>(parts_) / 40;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        DwOfPart(context, p, sums + p * dw_.plan.packed_count());
      }
    });
    UnpackSum(context, dw_.plan, sums, parts_, overwrite, grad_.dw(context));
  }

  void DwOfPart(const KernelContext& context, int64_t p, float* sum) const {
    const DirectPlan& plan = dw_.plan;
    const bool identity = dw_.padding.IsIdentity();
    float* padded =
        identity ? nullptr
                 : FloatsAt(context, dw_padded_) + p * plan.padded_count();
    const int64_t first = PartStart(grad_.conv.batch, parts_, p);
    const int64_t last = PartStart(grad_.conv.batch, parts_, p + 1);
    for (int64_t n = first; n < last; ++n) {
      const float* image = Input(context, 1) + n * dw_.padding.stored_count();
      if (!identity) PadImage(dw_.padding, image, padded);
      run_weights_(plan, identity ? image : padded,
                   Input(context, 0) +
                       n * plan.blocks() * plan.output_size() * plan.block(),
                   /*accumulate=*/n > first, sum);
    }
  }

  ConvGradSpec grad_;
  Layout dy_layout_;
  ScratchLayout scratch_;

  DirectPass dx_;
  DirectRunner dx_runner_;
  size_t weights_ = 0, dx_padded_ = 0;

  DirectPass dw_;
  DirectWeightsFunction run_weights_ = nullptr;
  int64_t parts_ = 0;  // of the batch
  size_t sums_ = 0, dw_padded_ = 0;
};

// The blocks for a tensor of `channels` beside one that lies in `other`: 8
// where half of a larger block would be padding.
Layout BlocksFor(int64_t channels, Layout other) {
  if (channels <= 8) return Layout::kBlocked8;
  return other == Layout::kBlocked16 ? other : GetDirectLayout();
}

}  // namespace

KernelChoice ChooseDirectConv(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const ConvSpec spec =
      MakeConvSpec(request.node, x.info.shape, request.inputs[1].info.shape);
  std::string reason = ConvDeclines(request, spec);
  if (reason.empty()) reason = DirectDeclines(spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Layout y = BlocksFor(spec.filters, x.layout);
  auto kernel = std::make_unique<DirectConv>(
      spec, x.layout, y, request.has_input(2), request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts = {x.layout, Layout::kPlain, Layout::kPlain};
  choice.output_layouts = {y};
  choice.flops = spec.flops();
  return choice;
}

KernelChoice ChooseDirectConvGrad(const KernelRequest& request) {
  const ConvGradSpec grad = MakeConvGradSpec(request);
  std::string reason = ConvDeclines(request, grad.conv);
  if (reason.empty()) reason = DirectDeclines(grad.conv);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  // As the forward pass left them.
  const Layout x = request.inputs[1].layout;
  const Layout dy = BlocksFor(grad.conv.filters, x);
  const Layout dx = x == Layout::kPlain ? BlocksFor(grad.conv.channels, dy) : x;
  auto kernel =
      std::make_unique<DirectConvGrad>(grad, x, dx, dy, request.num_threads);
  KernelChoice choice;
  choice.scratch_bytes = kernel->scratch_bytes();
  choice.kernel = std::move(kernel);
  choice.input_layouts.assign(request.inputs.size(), Layout::kPlain);
  choice.input_layouts[0] = dy;
  choice.input_layouts[1] = x;
  choice.output_layouts = {dx, Layout::kPlain, Layout::kPlain};
  choice.flops = grad.flops();
  return choice;
}

}  // namespace strop
