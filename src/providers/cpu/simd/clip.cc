// SPDX-License-Identifier: Apache-2.0
//
// Clip and its gradient.
#include "providers/cpu/simd/clip.h"

#include <limits>
#include <memory>
#include <string>

#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/clip.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

void RunClip(const float* x, float low, float high, float* y, int64_t n) {
  const auto lows = hn::Set(FloatTag(), low);
  const auto highs = hn::Set(FloatTag(), high);
  Map(x, y, n,
      [=](auto, auto v) HWY_ATTR { return ClipKeepingNan(v, lows, highs); });
}

void RunClipGrad(const float* dy, const float* x, float low, float high,
                 float* dx, int64_t n) {
  const auto lows = hn::Set(FloatTag(), low);
  const auto highs = hn::Set(FloatTag(), high);
  Map(dy, x, dx, n, [=](auto, auto g, auto v) HWY_ATTR {
    return hn::IfThenZeroElse(hn::Or(hn::Lt(v, lows), hn::Gt(v, highs)), g);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(RunClip);
HWY_EXPORT(RunClipGrad);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float ScalarOr(const KernelContext& context, size_t i, float fallback) {
  return context.has_input(i) ? context.scalar<float>(i) : fallback;
}

}  // namespace

void ClipValues(const float* x, float low, float high, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(RunClip)(x, low, high, y, n);
}

namespace {

class ClipKernel final : public Kernel {
 public:
  explicit ClipKernel(int64_t size) : size_(size) {}

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    const float low = ScalarOr(context, 1, -kInfinity);
    const float high = ScalarOr(context, 2, kInfinity);
    context.ParallelFor(size_, 0.1, [=](int64_t begin, int64_t end) {
      ClipValues(x + begin, low, high, y + begin, end - begin);
    });
  }

 private:
  int64_t size_;
};

class ClipGradKernel final : public Kernel {
 public:
  explicit ClipGradKernel(int64_t size) : size_(size) {}

  void Run(const KernelContext& context) override {
    const float* dy = static_cast<const float*>(context.input(0).data());
    const float* x = static_cast<const float*>(context.input(1).data());
    float* dx = static_cast<float*>(context.output(0).data());
    const float low = ScalarOr(context, 2, -kInfinity);
    const float high = ScalarOr(context, 3, kInfinity);
    context.ParallelFor(size_, 0.15, [=](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(RunClipGrad)
      (dy + begin, x + begin, low, high, dx + begin, end - begin);
    });
  }

 private:
  int64_t size_;
};

// Whether the bounds are known to leave a zero as it is.
bool KeepsZero(const KernelRequest& request) {
  const auto lets = [&](size_t i, auto&& holds) {
    if (!request.has_input(i)) return true;
    const Tensor* bound = request.inputs[i].constant;
    return bound != nullptr && holds(bound->values<float>()[0]);
  };
  return lets(1, [](float low) { return low <= 0; }) &&
         lets(2, [](float high) { return high >= 0; });
}

}  // namespace

KernelChoice ChooseClip(const KernelRequest& request) {
  const KernelInput& x = request.inputs[0];
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  const Layout layout = KeepsZero(request) ? x.layout : Layout::kPlain;
  const int64_t size = StoredElementCount(x.info.shape, layout);
  KernelChoice choice;
  choice.kernel = std::make_unique<ClipKernel>(size);
  choice.input_layouts = {layout};
  choice.output_layouts = {layout};
  choice.flops = 2.0 * static_cast<double>(size);
  return choice;
}

KernelChoice ChooseClipGrad(const KernelRequest& request) {
  const KernelInput& dy = request.inputs[0];
  const KernelInput& x = request.inputs[1];
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  const Layout layout = x.layout != Layout::kPlain ? x.layout : dy.layout;
  const int64_t size = StoredElementCount(x.info.shape, layout);
  KernelChoice choice;
  choice.kernel = std::make_unique<ClipGradKernel>(size);
  choice.input_layouts = {layout, layout};
  choice.output_layouts = {layout};
  choice.flops = 2.0 * static_cast<double>(size);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
