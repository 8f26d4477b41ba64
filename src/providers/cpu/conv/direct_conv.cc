// SPDX-License-Identifier: Apache-2.0
//
// Convolution without groups by loops over vectors of filters, or of outputs
// in a row where filters are few (direct_loops.h, row_loops.h). Unlike oneDNN's
// kernels it spends no time on channels that pad the last block of the input.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/direct_plan.h"
#include "providers/cpu/conv/fused_conv.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/conv/row_loops.h"

namespace strop {
namespace {

const float* Input(const KernelContext& context, size_t i) {
  return static_cast<const float*>(context.input(i).data());
}

class DirectConv final : public Kernel {
 public:
  DirectConv(const DirectPass& pass, int64_t batch, bool has_bias,
             int num_threads)
      : pass_(pass),
        runner_(pass_, batch, num_threads),
        has_bias_(has_bias),
        weights_(scratch_.AddFloats(pass_.packed_count())),
        bias_(scratch_.AddFloats(plan().blocks() * plan().block())),
        padded_(scratch_.AddFloats(runner_.scratch_count())) {}

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    float* weights = FloatsAt(context, weights_);
    PackWeights(context, pass_, Input(context, 1), weights);
    float* bias = nullptr;
    if (has_bias_) {
      bias = FloatsAt(context, bias_);
      std::fill_n(bias, plan().blocks() * plan().block(), 0.0f);
      std::copy_n(Input(context, 2), plan().filters, bias);
    }
    runner_.Run(context, Input(context, 0), weights, bias,
                static_cast<float*>(context.output(0).data()),
                FloatsAt(context, padded_));
  }

 private:
  const DirectPlan& plan() const { return pass_.plans[0]; }

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
      weights_ = scratch_.AddFloats(dx_.packed_count());
      dx_padded_ = scratch_.AddFloats(dx_runner_.scratch_count());
    }
    if (grad.has_dw) {
      dw_ = PlanForward(spec, x, dy);
      if (dy == Layout::kPlain) {
        run_weights_ = GetRowWeights();
        lanes_ = GetRowLanes();
      } else {
        run_weights_ = GetDirectWeights(dy);
      }
      parts_ = std::min<int64_t>(num_threads, spec.batch);
      images_ = ImagesAtATime(dw_, CeilDiv(spec.batch, parts_));
      sums_ = scratch_.AddFloats(parts_ * dw_plan().packed_count());
      wide_sums_ = scratch_.AddFloats(parts_ * wide_count());
      dw_padded_ = scratch_.AddFloats(parts_ * padded_count());
      bias_sums_ = scratch_.Add(static_cast<size_t>(parts_ * bias_count()) *
                                sizeof(double));
    }
  }

  size_t scratch_bytes() const { return scratch_.total(); }

  void Run(const KernelContext& context) override {
    const bool overwrite = grad_.Overwrites(context);
    if (grad_.has_dx) {
      float* weights = FloatsAt(context, weights_);
      PackWeights(context, dx_, Input(context, 2), weights);
      dx_runner_.Run(context, Input(context, 0), weights, /*bias=*/nullptr,
                     static_cast<float*>(context.output(0).data()),
                     FloatsAt(context, dx_padded_));
    }
    if (grad_.has_dw) {
      RunDw(context, overwrite);
    } else if (grad_.has_db) {
      BiasGradient(context, grad_.dy_shape, dy_layout_, Input(context, 0),
                   overwrite, grad_.db(context));
    }
  }

 private:
  const DirectPlan& dw_plan() const { return dw_.plans[0]; }
  // Floats of the padded images of a part.
  int64_t padded_count() const {
    return dw_.padding.IsIdentity() ? 0 : images_ * dw_.padding.padded_count();
  }

  // Floats of a part's sums while each of them is a vector.
  int64_t wide_count() const {
    return lanes_ == 1 ? 0 : lanes_ * dw_plan().packed_count();
  }

  void RunDw(const KernelContext& context, bool overwrite) {
    float* sums = FloatsAt(context, sums_);
    const double cost = grad_.conv.flops() / static_cast<double>(parts_) / 60;
    context.ParallelFor(parts_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        DwOfPart(context, p, sums + p * dw_plan().packed_count());
      }
    });
    UnpackSum(context, dw_plan(), sums, parts_, overwrite, grad_.dw(context));
    if (grad_.has_db) AddBiases(context, overwrite);
  }

  // Each part sums its own images, which it has near.
  int64_t bias_count() const {
    return grad_.has_db ? dw_plan().blocks() * dw_plan().block() : 0;
  }
  double* BiasSums(const KernelContext& context, int64_t p) const {
    return reinterpret_cast<double*>(context.scratch() + bias_sums_) +
           p * bias_count();
  }

  void AddBiases(const KernelContext& context, bool overwrite) const {
    float* db = grad_.db(context);
    for (int64_t m = 0; m < dw_plan().filters; ++m) {
      double sum = overwrite ? 0.0 : double{db[m]};
      for (int64_t p = 0; p < parts_; ++p) sum += BiasSums(context, p)[m];
      db[m] = static_cast<float>(sum);
    }
  }

  void DwOfPart(const KernelContext& context, int64_t p, float* sum) const {
    float* padded = FloatsAt(context, dw_padded_) + p * padded_count();
    float* sum_here =
        lanes_ == 1 ? sum : FloatsAt(context, wide_sums_) + p * wide_count();
    const int64_t first = PartStart(grad_.conv.batch, parts_, p);
    const int64_t last = PartStart(grad_.conv.batch, parts_, p + 1);
    if (grad_.has_db) {
      double* biases = BiasSums(context, p);
      std::fill_n(biases, bias_count(), 0.0);
      AddBiasSums(grad_.dy_shape, dy_layout_, Input(context, 0), first, last,
                  biases);
    }
    for (int64_t n = first; n < last; n += images_) {
      DwOfImages(context, n, std::min(n + images_, last),
                 /*accumulate=*/n > first, padded, sum_here);
    }
    if (lanes_ > 1) FoldRowLanes(sum_here, dw_plan().packed_count(), sum);
  }

  // Images [first, last).
  void DwOfImages(const KernelContext& context, int64_t first, int64_t last,
                  bool accumulate, float* padded, float* sum) const {
    const DirectPlan& plan = dw_plan();
    const float* dy =
        Input(context, 0) + first * plan.blocks() * plan.y_block();
    const float* images =
        Input(context, 1) + first * dw_.padding.stored_count();
    int64_t image_step = dw_.padding.stored_count();
    if (!dw_.padding.IsIdentity()) {
      PadImages(dw_.padding, images, last - first, padded);
      images = padded;
      image_step = dw_.padding.padded_count();
    }
    // Plain gradients are few: their sums stay in the cache as a whole.
    const int64_t step = dy_layout_ == Layout::kPlain ? plan.blocks() : 2;
    for (int64_t b = 0; b < plan.blocks(); b += step) {
      const int64_t end = std::min(b + step, plan.blocks());
      for (int64_t i = 0; i < last - first; ++i) {
        run_weights_(plan, b, end, images + i * image_step,
                     dy + i * plan.blocks() * plan.y_block(),
                     accumulate || i > 0, sum);
      }
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
  int64_t parts_ = 0;   // of the batch
  int64_t images_ = 1;  // of a part at a time
  int64_t lanes_ = 1;   // of the vector that each gradient is summed in
  size_t sums_ = 0, wide_sums_ = 0, dw_padded_ = 0, bias_sums_ = 0;
};

}  // namespace

KernelChoice ChooseDirectConv(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const ConvSpec spec =
      MakeConvSpec(request.node, x.info.shape, request.inputs[1].info.shape);
  std::string reason = ConvDeclines(request, spec);
  if (reason.empty()) reason = DirectDeclines(spec);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const Layout y = ForwardLayout(spec, x.layout);
  DirectPass pass = PlanForward(spec, x.layout, y);
  if (request.op.name == "FusedConv") {
    pass.plans[0].bounds = FusedBounds(request);
    if (!pass.plans[0].bounds) {
      return KernelChoice::Decline("an addend, or not Relu or Clip");
    }
  }
  auto kernel = std::make_unique<DirectConv>(
      pass, spec.batch, request.has_input(2), request.num_threads);
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
  const Layout dy = ForwardLayout(grad.conv, x);
  const Layout dx = x == Layout::kPlain ? BackwardLayout(grad.conv, dy) : x;
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
