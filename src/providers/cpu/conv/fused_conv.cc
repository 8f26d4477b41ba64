// SPDX-License-Identifier: Apache-2.0
//
// FusedConv by a kernel of Conv and a pass over what it wrote.
#include "providers/cpu/conv/fused_conv.h"

#include <limits>
#include <memory>
#include <string>

#include "ops/fused_activation.h"
#include "providers/cpu/conv/kernels.h"
#include "providers/cpu/kernel_list.h"
#include "providers/cpu/simd/clip.h"

namespace strop {
namespace {

constexpr OpDef kConv = {.name = "Conv"};

class FusedConvKernel final : public Kernel {
 public:
  FusedConvKernel(std::unique_ptr<Kernel> conv, int64_t size, Bounds bounds)
      : conv_(std::move(conv)), size_(size), bounds_(bounds) {}

  void Run(const KernelContext& context) override {
    conv_->Run(context);
    float* y = static_cast<float*>(context.output(0).data());
    context.ParallelFor(size_, 0.1, [=, this](int64_t begin, int64_t end) {
      ClipValues(y + begin, bounds_.low, bounds_.high, y + begin, end - begin);
    });
  }

 private:
  std::unique_ptr<Kernel> conv_;
  int64_t size_;
  Bounds bounds_;
};

}  // namespace

std::optional<Bounds> FusedBounds(const KernelRequest& request) {
  using Kind = ops::FusedActivation::Kind;
  if (request.has_input(3)) return std::nullopt;
  const auto activation = ops::ReadConvActivation(request.node);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (activation.kind == Kind::kRelu) return Bounds{0, kInfinity};
  const float low = activation.parameters[0], high = activation.parameters[1];
  if (activation.kind != Kind::kClip || !(low <= 0) || !(high >= 0)) {
    return std::nullopt;
  }
  return Bounds{low, high};
}

KernelChoice ChooseFusedConv(const KernelRequest& request) {
  const auto bounds = FusedBounds(request);
  if (!bounds) return KernelChoice::Decline("an addend, or not Relu or Clip");
  KernelChoice choice =
      ChooseFromList({.node = request.node,
                      .op = kConv,
                      .inputs = request.inputs.first(
                          std::min<size_t>(3, request.inputs.size())),
                      .outputs = request.outputs,
                      .num_threads = request.num_threads});
  if (choice.kernel == nullptr) return choice;
  const Layout layout =
      choice.output_layouts.empty() ? Layout::kPlain : choice.output_layouts[0];
  choice.kernel = std::make_unique<FusedConvKernel>(
      std::move(choice.kernel),
      StoredElementCount(request.outputs[0].shape, layout), *bounds);
  return choice;
}

}  // namespace strop
