// SPDX-License-Identifier: Apache-2.0
//
// GatherGrad: rows of dY are added to the rows of dX that the indices name;
// and GatherGradAccumulate, which adds them to a gradient buffer.
#include <algorithm>
#include <memory>

#include "base/round.h"
#include "ops/axis.h"
#include "providers/cpu/simd/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/gather_grad.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// y += x
void AddRow(const float* x, float* y, int64_t n) {
  Map(x, y, y, n, [](auto, auto u, auto v) HWY_ATTR { return hn::Add(u, v); });
}

// x = 0
void SetZero(float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if (!IsZero(hn::LoadU(d, x + i))) hn::StoreU(hn::Zero(d), d, x + i);
  }
  std::fill(x + i, x + n, 0.0f);
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(AddRow);
HWY_EXPORT(SetZero);

// shape, indices, dY -> dX, or, accumulating, indices, dY, buffer, overwrite.
class GatherGradKernel final : public Kernel {
 public:
  GatherGradKernel(const ops::AxisSizes& sizes, int64_t count, bool accumulates)
      : sizes_(sizes), count_(count), accumulates_(accumulates) {}

  void Run(const KernelContext& context) override {
    const Tensor& indices = context.input(accumulates_ ? 0 : 1);
    for (int64_t i = 0; i < count_; ++i) {
      ops::CheckIndex(context.node(), ops::IndexAt(indices, i), sizes_.size);
    }
    const Tensor& dy_tensor = context.input(accumulates_ ? 1 : 2);
    const Tensor& sums = accumulates_ ? context.input(2) : context.output(0);
    const float* dy = static_cast<const float*>(dy_tensor.data());
    float* dx = static_cast<float*>(sums.data());
    const bool accumulate = accumulates_ && !context.scalar<bool>(3);
    if (!accumulate) {
      context.ParallelFor(sizes_.outer * sizes_.size * sizes_.inner, 0.1,
                          [=](int64_t begin, int64_t end) {
                            HWY_DYNAMIC_DISPATCH(SetZero)
                            (dx + begin, end - begin);
                          });
    }
    // Several indices may name one row. Each thread therefore takes columns
    // of all rows, and adds in the order of the indices.
    const int64_t pieces = CeilDiv(sizes_.inner, kPiece);
    const double cost =
        static_cast<double>(count_) *
        (4 + 0.15 * static_cast<double>(std::min(kPiece, sizes_.inner)));
    context.ParallelFor(
        sizes_.outer * pieces, cost, [&](int64_t begin, int64_t end) {
          while (begin < end) {
            const int64_t outer = begin / pieces;
            const int64_t first = begin % pieces;
            const int64_t last = std::min(pieces, first + end - begin);
            AddRows(indices, outer, first * kPiece,
                    std::min(sizes_.inner, last * kPiece), dy, dx);
            begin += last - first;
          }
        });
  }

 private:
  static constexpr int64_t kPiece = 64;

  void AddRows(const Tensor& indices, int64_t outer, int64_t begin, int64_t end,
               const float* dy, float* dx) const {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t index = ops::IndexAt(indices, i);
      const int64_t row = index < 0 ? index + sizes_.size : index;
      HWY_DYNAMIC_DISPATCH(AddRow)
      (dy + (outer * count_ + i) * sizes_.inner + begin,
       dx + (outer * sizes_.size + row) * sizes_.inner + begin, end - begin);
    }
  }

  ops::AxisSizes sizes_;
  int64_t count_;
  bool accumulates_;
};

KernelChoice Choose(const KernelRequest& request, const Shape& dx,
                    size_t indices, bool accumulates) {
  const TensorInfo& dy = request.inputs[indices + 1].info;
  if (dy.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(dy.type));
  }
  KernelChoice choice;
  choice.kernel = std::make_unique<GatherGradKernel>(
      ops::ReadAxis(request.node, dx, 0),
      request.inputs[indices].info.shape.element_count(), accumulates);
  return choice;
}

}  // namespace

KernelChoice ChooseGatherGrad(const KernelRequest& request) {
  return Choose(request, request.outputs[0].shape, 1, false);
}

KernelChoice ChooseGatherGradAccumulate(const KernelRequest& request) {
  return Choose(request, request.inputs[2].info.shape, 0, true);
}

}  // namespace strop
#endif  // HWY_ONCE
