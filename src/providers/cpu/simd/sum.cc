// SPDX-License-Identifier: Apache-2.0
//
// Sum of any number of tensors of one shape.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

void AddTwo(const float* a, const float* b, float* y, int64_t n) {
  Map(a, b, y, n, [](auto, auto u, auto v) HWY_ATTR { return hn::Add(u, v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(AddTwo);

class SumKernel final : public Kernel {
 public:
  SumKernel(int64_t size, size_t count) : size_(size), count_(count) {}

  void Run(const KernelContext& context) override {
    const auto input = [&](size_t i) {
      return static_cast<const float*>(context.input(i).data());
    };
    float* y = static_cast<float*>(context.output(0).data());
    context.ParallelFor(size_, 0.1 * static_cast<double>(count_),
                        [&](int64_t begin, int64_t end) {
                          // The sums of a chunk stay in the first cache. y may
                          // be one of the first two inputs, which are read
                          // first.
                          for (int64_t at = begin; at < end; at += kChunk) {
                            const int64_t n = std::min(kChunk, end - at);
                            const float* sum = input(0) + at;
                            for (size_t i = 1; i < count_; ++i) {
                              HWY_DYNAMIC_DISPATCH(AddTwo)
                              (sum, input(i) + at, y + at, n);
                              sum = y + at;
                            }
                          }
                        });
  }

 private:
  static constexpr int64_t kChunk = 2048;

  int64_t size_;
  size_t count_;
};

}  // namespace

KernelChoice ChooseSum(const KernelRequest& request) {
  if (request.inputs.size() < 2) return KernelChoice::Decline("one input");
  const Shape& shape = request.outputs[0].shape;
  Layout layout = Layout::kPlain;
  for (const KernelInput& input : request.inputs) {
    if (input.info.type != DataType::kFloat32) {
      return KernelChoice::Decline(DataTypeName(input.info.type));
    }
    if (input.info.shape != shape) {
      return KernelChoice::Decline("an input is broadcast");
    }
    if (layout == Layout::kPlain) layout = input.layout;
  }
  const size_t count = request.inputs.size();
  KernelChoice choice;
  choice.kernel =
      std::make_unique<SumKernel>(StoredElementCount(shape, layout), count);
  choice.input_layouts.assign(count, layout);
  choice.output_layouts = {layout};
  choice.flops = static_cast<double>(shape.element_count()) *
                 static_cast<double>(count - 1);
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
