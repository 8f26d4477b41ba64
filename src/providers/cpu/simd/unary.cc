// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of one tensor.
#include <memory>
#include <string>

#include "providers/cpu/simd/kernels.h"
#include "providers/cpu/simd/operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/unary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/math-inl.h"
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

void RunUnary(UnaryOperation operation, const float* x, float* y, int64_t n) {
  switch (operation) {
    case UnaryOperation::kRelu:
      // Not max(x, 0): a NaN must stay one.
      return Map(x, y, n, [](auto d, auto v) HWY_ATTR {
        return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
      });
    case UnaryOperation::kNeg:
      return Map(x, y, n, [](auto, auto v) HWY_ATTR { return hn::Neg(v); });
    case UnaryOperation::kAbs:
      return Map(x, y, n, [](auto, auto v) HWY_ATTR { return hn::Abs(v); });
    case UnaryOperation::kSqrt:
      return Map(x, y, n, [](auto, auto v) HWY_ATTR { return hn::Sqrt(v); });
    case UnaryOperation::kExp:
      return Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Exp(d, v); });
    case UnaryOperation::kLog:
      return Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Log(d, v); });
    case UnaryOperation::kTanh:
      return Map(x, y, n,
                 [](auto d, auto v) HWY_ATTR { return hn::Tanh(d, v); });
    case UnaryOperation::kSigmoid:
      return Map(x, y, n,
                 [](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(RunUnary);

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(UnaryOperation operation, int64_t size, double cost)
      : operation_(operation), size_(size), cost_(cost) {}

  void Run(const KernelContext& context) override {
    const float* x = static_cast<const float*>(context.input(0).data());
    float* y = static_cast<float*>(context.output(0).data());
    context.ParallelFor(size_, cost_, [=, this](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(RunUnary)
      (operation_, x + begin, y + begin, end - begin);
    });
  }

 private:
  UnaryOperation operation_;
  int64_t size_;
  double cost_;  // nanoseconds an element
};

}  // namespace

KernelChoice ChooseUnary(const KernelRequest& request,
                         UnaryOperation operation) {
  const KernelInput& x = request.inputs[0];
  if (x.info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.info.type));
  }
  // Padding lanes may stay only where they come out as zero again.
  const Layout layout = request.op.keeps_zero ? x.layout : Layout::kPlain;
  const int64_t size = StoredElementCount(x.info.shape, layout);
  const double cost = operation <= UnaryOperation::kAbs ? 0.1 : 0.5;
  KernelChoice choice;
  choice.kernel = std::make_unique<UnaryKernel>(operation, size, cost);
  choice.input_layouts = {layout};
  choice.output_layouts = {layout};
  choice.flops = static_cast<double>(size);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
