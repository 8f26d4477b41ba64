// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of one tensor.
#include <memory>
#include <string>

#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/unary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "hwy/contrib/math/math-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Not max(x, 0): a NaN must stay one.
void Relu(const float* x, float* y, int64_t n) {
  Map(x, y, n, [](auto d, auto v) {
    return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
  });
}

void Neg(const float* x, float* y, int64_t n) {
  Map(x, y, n, [](auto, auto v) { return hn::Neg(v); });
}

void Sqrt(const float* x, float* y, int64_t n) {
  Map(x, y, n, [](auto, auto v) { return hn::Sqrt(v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

using UnaryFunction = void (*)(const float* x, float* y, int64_t n);

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(UnaryFunction function, int64_t size, double cost)
      : function_(function), size_(size), cost_(cost) {}

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    context.ParallelFor(size_, cost_, [=, this](int64_t begin, int64_t end) {
      function_(x + begin, y + begin, end - begin);
    });
  }

 private:
  UnaryFunction function_;
  int64_t size_;
  double cost_;  // nanoseconds an element
};

KernelChoice ChooseUnary(const KernelRequest& request, UnaryFunction function,
                         double cost) {
  const KernelInput& x = request.inputs[0];
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  // Padding lanes may stay only where they come out as zero again.
  const Layout layout = request.op.keeps_zero ? x.layout : Layout::kPlain;
  const int64_t size = StoredElementCount(x.info.shape, layout);
  KernelChoice choice;
  choice.kernel = std::make_unique<UnaryKernel>(function, size, cost);
  choice.input_layouts = {layout};
  choice.output_layouts = {layout};
  choice.flops = static_cast<double>(size);
  return choice;
}

HWY_EXPORT(Relu);
HWY_EXPORT(Neg);
HWY_EXPORT(Sqrt);

}  // namespace

// The function for this machine, found once when a kernel is made.
#define STROP_CHOOSE_UNARY(Name, cost)                          \
  KernelChoice ChooseSimd##Name(const KernelRequest& request) { \
    return ChooseUnary(                                         \
        request,                                                \
        [](const float* x, float* y, int64_t n) {               \
          HWY_DYNAMIC_DISPATCH(Name)(x, y, n);                  \
        },                                                      \
        cost);                                                  \
  }

STROP_CHOOSE_UNARY(Relu, 0.1)
STROP_CHOOSE_UNARY(Neg, 0.1)
STROP_CHOOSE_UNARY(Sqrt, 0.3)

#undef STROP_CHOOSE_UNARY

}  // namespace strop
#endif  // HWY_ONCE
