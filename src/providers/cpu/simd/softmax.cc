// SPDX-License-Identifier: Apache-2.0
//
// Softmax, LogSoftmax and their gradients along the last axis, or along all
// axes from one on.
#include "providers/cpu/simd/softmax.h"

#include <limits>
#include <memory>
#include <string>

#include "providers/cpu/simd/kernels.h"
#include "providers/cpu/simd/operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/softmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/math-inl.h"
#include "providers/cpu/simd/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

FloatVec LargestOf(const float* x, int64_t n) {
  const FloatTag d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = lowest;
  ForEachVector(n, [&](auto at) HWY_ATTR {
    largest = hn::Max(largest, at.Or(at.Load(x), lowest));
  });
  return hn::MaxOfLanes(d, largest);
}

// y = x + b; the largest of it.
FloatVec LargestOfSum(const float* x, const float* b, float* y, int64_t n) {
  const FloatTag d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = lowest;
  ForEachVector(n, [&](auto at) HWY_ATTR {
    const auto sum = hn::Add(at.Load(x), at.Load(b));
    at.Store(sum, y);
    largest = hn::Max(largest, at.Or(sum, lowest));
  });
  return hn::MaxOfLanes(d, largest);
}

// y = exp(x - max) / sum(exp(x - max)) where x, or x + b if there is b
void SoftmaxRow(const float* x, const float* b, float* y, int64_t n) {
  const FloatTag d;
  const auto largest =
      b == nullptr ? LargestOf(x, n) : LargestOfSum(x, b, y, n);
  if (b != nullptr) x = y;
  float sum[1];
  SumOverRow(
      n,
      [=](auto at, FloatVec* sums) HWY_ATTR {
        const auto e = Exp(d, hn::Sub(at.Load(x), largest));
        at.Store(e, y);
        sums[0] = hn::Add(sums[0], at.Or(e, hn::Zero(d)));
      },
      sum);
  const auto scale = hn::Set(d, 1 / sum[0]);
  Map(y, y, n, [=](auto, auto v) HWY_ATTR { return hn::Mul(v, scale); });
}

// y = x - max - log(sum(exp(x - max)))
void LogSoftmaxRow(const float* x, float* y, int64_t n) {
  const FloatTag d;
  const auto largest = LargestOf(x, n);
  float sum[1];
  SumOverRow(
      n,
      [=](auto at, FloatVec* sums) HWY_ATTR {
        const auto e = Exp(d, hn::Sub(at.Load(x), largest));
        sums[0] = hn::Add(sums[0], at.Or(e, hn::Zero(d)));
      },
      sum);
  const auto shift = Log(d, hn::Set(d, sum[0]));
  Map(x, y, n, [=](auto, auto v) HWY_ATTR {
    return hn::Sub(hn::Sub(v, largest), shift);
  });
}

// The sum of x y in double: where x is nearly the same in a whole row of a
// gradient, the rounding of a sum in float would be most of the result.
double DotInDouble(const float* x, const float* y, int64_t n) {
  double sum = 0;
  int64_t i = 0;
#if HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR
  const FloatTag d;
  const hn::Half<FloatTag> half;
  const hn::Repartition<double, FloatTag> wide;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto lower = hn::Zero(wide);
  auto upper = hn::Zero(wide);
  for (; i + lanes <= n; i += lanes) {
    const auto u = hn::LoadU(d, x + i);
    const auto v = hn::LoadU(d, y + i);
    lower = hn::MulAdd(hn::PromoteTo(wide, hn::LowerHalf(half, u)),
                       hn::PromoteTo(wide, hn::LowerHalf(half, v)), lower);
    upper = hn::MulAdd(hn::PromoteTo(wide, hn::UpperHalf(half, u)),
                       hn::PromoteTo(wide, hn::UpperHalf(half, v)), upper);
  }
  sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(lower, upper)));
#endif
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
  return sum;
}

// dx = y (dy - sum(y dy))
void SoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t n) {
  const auto shift =
      hn::Set(FloatTag(), static_cast<float>(DotInDouble(dy, y, n)));
  Map(dy, y, dx, n, [=](auto, auto u, auto v) HWY_ATTR {
    return hn::Mul(v, hn::Sub(u, shift));
  });
}

// dx = dy - exp(y) sum(dy)
void LogSoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t n) {
  float total[1];
  SumOverRow(
      n,
      [=](auto at, FloatVec* sums)
          HWY_ATTR { sums[0] = hn::Add(sums[0], at.Load(dy)); },
      total);
  const auto sum = hn::Set(FloatTag(), total[0]);
  Map(dy, y, dx, n, [=](auto d, auto u, auto v) HWY_ATTR {
    return hn::NegMulAdd(Exp(d, v), sum, u);
  });
}

void RunSoftmax(const SoftmaxRowsArguments& args) {
  const int64_t n = args.columns;
  for (int64_t i = 0; i < args.rows; ++i) {
    const float* a = args.a + i * args.step;
    const float* b = args.b == nullptr ? nullptr : args.b + i * args.b_step;
    float* to = args.to + i * args.step;
    switch (args.operation) {
      case SoftmaxOperation::kSoftmax:
        SoftmaxRow(a, b, to, n);
        break;
      case SoftmaxOperation::kLogSoftmax:
        LogSoftmaxRow(a, to, n);
        break;
      case SoftmaxOperation::kSoftmaxGrad:
        SoftmaxGradRow(a, b, to, n);
        break;
      case SoftmaxOperation::kLogSoftmaxGrad:
        LogSoftmaxGradRow(a, b, to, n);
        break;
    }
  }
}

// The columns of [from, n) up to the last one above `bound`, or NaN; `from` if
// there is none.
int64_t CountUpToLast(const float* row, int64_t from, int64_t n, float bound) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  while (n - lanes >= from &&
         hn::AllTrue(d, hn::Le(hn::LoadU(d, row + n - lanes), limit))) {
    n -= lanes;
  }
  while (n > from && row[n - 1] <= bound) --n;
  return n;
}

int64_t CountOpen(const MaskRows& mask) {
  constexpr float kClosed = -1e8f;
  constexpr float kOpen = kClosed / 2;
  int64_t open = 0;
  const int64_t rows = mask.step == 0 ? 1 : mask.rows;
  // From the last row on, which sees most if the mask is causal.
  for (int64_t i = rows; i-- > 0;) {
    const float* row = mask.data + i * mask.step;
    if (CountUpToLast(row, 0, mask.columns, kOpen) == 0) return mask.columns;
    open = CountUpToLast(row, open, mask.columns, kClosed);
  }
  return open;
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(RunSoftmax);
HWY_EXPORT(CountOpen);

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(SoftmaxOperation operation, int64_t rows, int64_t columns)
      : operation_(operation), rows_(rows), columns_(columns) {}

  void Run(const KernelContext& context) override {
    const float* a = static_cast<const float*>(context.input(0).data());
    const float* b = operation_ >= SoftmaxOperation::kSoftmaxGrad
                         ? static_cast<const float*>(context.input(1).data())
                         : nullptr;
    float* to = static_cast<float*>(context.output(0).data());
    context.ParallelFor(rows_, 5 + 0.7 * static_cast<double>(columns_),
                        [&](int64_t begin, int64_t end) {
                          const int64_t at = begin * columns_;
                          RunSoftmaxRows({.operation = operation_,
                                          .rows = end - begin,
                                          .columns = columns_,
                                          .a = a + at,
                                          .b = b == nullptr ? nullptr : b + at,
                                          .b_step = columns_,
                                          .to = to + at,
                                          .step = columns_});
                        });
  }

 private:
  SoftmaxOperation operation_;
  int64_t rows_;
  int64_t columns_;
};

}  // namespace

void RunSoftmaxRows(const SoftmaxRowsArguments& args) {
  HWY_DYNAMIC_DISPATCH(RunSoftmax)(args);
}

int64_t CountOpenColumns(const MaskRows& mask) {
  return HWY_DYNAMIC_DISPATCH(CountOpen)(mask);
}

KernelChoice ChooseSoftmax(const KernelRequest& request,
                           SoftmaxOperation operation, bool coerced) {
  const TensorInfo& x = request.inputs[0].info;
  if (x.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(x.type));
  }
  // From `axis` on all axes are one row, or there is only one.
  const auto rank = static_cast<int64_t>(x.shape.rank());
  int64_t axis = request.node.Int("axis", coerced ? 1 : -1);
  if (axis < 0) axis += rank;
  if (!coerced && axis + 1 < rank &&
      x.shape.element_count(static_cast<size_t>(axis) + 1, x.shape.rank()) !=
          1) {
    return KernelChoice::Decline("axis " + std::to_string(axis) + " of " +
                                 x.shape.ToString());
  }
  const auto split = static_cast<size_t>(axis);
  KernelChoice choice;
  choice.kernel = std::make_unique<SoftmaxKernel>(
      operation, x.shape.element_count(0, split),
      x.shape.element_count(split, x.shape.rank()));
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
