// SPDX-License-Identifier: Apache-2.0
//
// A transposed convolution is the gradient of a convolution along its input,
// and that convolution is its own gradient: their kernels serve.
#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/round.h"
#include "providers/cpu/conv/bias_grad.h"
#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/kernel_list.h"

namespace strop {
namespace {

constexpr OpDef kConv = {.name = "Conv"};
constexpr OpDef kConvGrad = {.name = "ConvGrad", .domain = kMicrosoft};

Layout LayoutAt(const std::vector<Layout>& layouts, size_t i) {
  return i < layouts.size() ? layouts[i] : Layout::kPlain;
}

// Why the attributes do not mean the same for the convolution from y to x;
// empty if they do.
std::string TransposeDeclines(const KernelRequest& request, const Shape& x,
                              const Shape& y, const Shape& w) {
  for (const KernelInput& input : request.inputs) {
    if (input.info.type != DataType::kFloat32 &&
        input.info.type != DataType::kUndefined) {
      return DataTypeName(input.info.type);
    }
  }
  if (request.node.String("auto_pad", "NOTSET") != "NOTSET" ||
      request.node.Has("output_shape")) {
    return "padding that follows from shapes";
  }
  if (x.element_count() == 0 || y.element_count() == 0) return "no elements";
  const ConvSpec spec = MakeConvSpec(request.node, y, w);
  for (size_t i = 0; i < spec.window.rank; ++i) {
    if (spec.window.output[i] != x[i + 2]) return "output_padding";
  }
  return {};
}

// y += bias, one number a channel.
void AddBias(const KernelContext& context, const Shape& shape, Layout layout,
             const float* bias, float* y) {
  const int64_t block = BlockSize(layout), channels = shape[1];
  const int64_t blocks = CeilDiv(channels, block);
  const int64_t positions = shape.element_count(2, shape.rank());
  const double cost = 0.2 * static_cast<double>(positions * block);
  context.ParallelFor(shape[0] * blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * block;
      float* to = y + i * positions * block;
      if (layout == Layout::kPlain) {
        for (int64_t p = 0; p < positions; ++p) to[p] += bias[first];
        continue;
      }
      float lanes[16] = {};
      std::copy_n(bias + first, std::min(block, channels - first), lanes);
      for (int64_t p = 0; p < positions; ++p, to += block) {
        for (int64_t lane = 0; lane < block; ++lane) {
          to[lane] += lanes[lane];
        }
      }
    }
  });
}

// X, W, bias (optional)
class ConvTransposeKernel final : public Kernel {
 public:
  ConvTransposeKernel(std::unique_ptr<Kernel> backward, const Shape& y,
                      Layout layout)
      : backward_(std::move(backward)), y_(y), layout_(layout) {}

  void Run(const KernelContext& context) override {
    const Argument y = {.tensor = context.output(0), .list = {}};
    const Argument x = {.tensor = context.input(0), .list = {}};
    const Argument w = {.tensor = context.input(1), .list = {}};
    const std::array<const Argument*, 3> inputs = {&x, &y, &w};
    const std::array<const Argument*, 3> outputs = {&y, nullptr, nullptr};
    backward_->Run(context.With(inputs, outputs, context.scratch()));
    if (context.has_input(2)) {
      AddBias(context, y_, layout_,
              static_cast<const float*>(context.input(2).data()),
              static_cast<float*>(context.output(0).data()));
    }
  }

 private:
  std::unique_ptr<Kernel> backward_;
  Shape y_;
  Layout layout_;
};

// dY, X, W -> dX, dW, dB
class ConvTransposeGradKernel final : public Kernel {
 public:
  ConvTransposeGradKernel(std::unique_ptr<Kernel> forward,
                          std::unique_ptr<Kernel> weights, Layout dy)
      : forward_(std::move(forward)),
        weights_(std::move(weights)),
        dy_layout_(dy) {}

  void Run(const KernelContext& context) override {
    const Argument dy = {.tensor = context.input(0), .list = {}};
    const Argument x = {.tensor = context.input(1), .list = {}};
    const Argument w = {.tensor = context.input(2), .list = {}};
    if (forward_ != nullptr) {
      const Argument dx = {.tensor = context.output(0), .list = {}};
      const std::array<const Argument*, 2> inputs = {&dy, &w};
      const std::array<const Argument*, 1> outputs = {&dx};
      forward_->Run(context.With(inputs, outputs, context.scratch()));
    }
    if (weights_ != nullptr) {
      const Argument dw = {.tensor = context.output(1), .list = {}};
      const std::array<const Argument*, 3> inputs = {&x, &dy, &w};
      const std::array<const Argument*, 3> outputs = {nullptr, &dw, nullptr};
      weights_->Run(context.With(inputs, outputs, context.scratch()));
    }
    if (context.has_output(2)) {
      BiasGradient(context, context.input(0).shape(), dy_layout_,
                   static_cast<const float*>(context.input(0).data()),
                   /*overwrite=*/true,
                   static_cast<float*>(context.output(2).data()));
    }
  }

 private:
  std::unique_ptr<Kernel> forward_, weights_;  // null: not wanted
  Layout dy_layout_;
};

// A kernel for the node as if it were another op.
KernelChoice ChooseAs(const KernelRequest& request, const OpDef& op,
                      std::span<const KernelInput> inputs,
                      std::span<const TensorInfo> outputs) {
  return ChooseFromList({.node = request.node,
                         .op = op,
                         .inputs = inputs,
                         .outputs = outputs,
                         .num_threads = request.num_threads});
}

}  // namespace

KernelChoice ChooseConvTranspose(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  const KernelInput& w = request.inputs[1];
  const TensorInfo& y = request.outputs[0];
  std::string reason =
      TransposeDeclines(request, x.info.shape, y.shape, w.info.shape);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  const KernelInput inputs[] = {x, {.info = y, .layout = x.layout}, w};
  const TensorInfo outputs[] = {y, {}, {}};
  KernelChoice inner = ChooseAs(request, kConvGrad, inputs, outputs);
  if (inner.kernel == nullptr) return inner;
  const Layout y_layout = LayoutAt(inner.output_layouts, 0);
  KernelChoice choice;
  choice.kernel = std::make_unique<ConvTransposeKernel>(std::move(inner.kernel),
                                                        y.shape, y_layout);
  choice.name = std::move(inner.name);
  choice.input_layouts = {LayoutAt(inner.input_layouts, 0), Layout::kPlain,
                          Layout::kPlain};
  choice.output_layouts = {y_layout};
  choice.scratch_bytes = inner.scratch_bytes;
  choice.flops = inner.flops;
  return choice;
}

KernelChoice ChooseConvTransposeGrad(const KernelRequest& request) {
  const KernelInput& dy = request.inputs[0];
  const KernelInput& x = request.inputs[1];
  const KernelInput& w = request.inputs[2];
  std::string reason =
      TransposeDeclines(request, x.info.shape, dy.info.shape, w.info.shape);
  if (!reason.empty()) return KernelChoice::Decline(std::move(reason));
  KernelChoice choice;
  Layout of_dy = dy.layout, of_x = x.layout;
  std::unique_ptr<Kernel> forward, weights;
  if (request.has_output(0)) {
    const KernelInput inputs[] = {dy, w};
    const TensorInfo outputs[] = {x.info};
    KernelChoice inner = ChooseAs(request, kConv, inputs, outputs);
    if (inner.kernel == nullptr) return inner;
    of_dy = LayoutAt(inner.input_layouts, 0);
    choice.output_layouts = {LayoutAt(inner.output_layouts, 0)};
    choice.scratch_bytes = inner.scratch_bytes;
    choice.flops = inner.flops;
    choice.name = inner.name;
    forward = std::move(inner.kernel);
  }
  if (request.has_output(1)) {
    KernelInput read = dy;
    read.layout = of_dy;
    const KernelInput inputs[] = {x, read, w};
    const TensorInfo outputs[] = {{}, w.info, {}};
    KernelChoice inner = ChooseAs(request, kConvGrad, inputs, outputs);
    if (inner.kernel == nullptr) return inner;
    const Layout wanted = LayoutAt(inner.input_layouts, 1);
    if (forward != nullptr && wanted != of_dy) {
      return KernelChoice::Decline("the two kernels read dY in two layouts");
    }
    of_dy = wanted;
    of_x = LayoutAt(inner.input_layouts, 0);
    choice.scratch_bytes = std::max(choice.scratch_bytes, inner.scratch_bytes);
    choice.flops += inner.flops;
    if (choice.name.empty()) choice.name = inner.name;
    weights = std::move(inner.kernel);
  }
  choice.kernel = std::make_unique<ConvTransposeGradKernel>(
      std::move(forward), std::move(weights), of_dy);
  choice.input_layouts = {of_dy, of_x, Layout::kPlain};
  return choice;
}

}  // namespace strop
