// SPDX-License-Identifier: Apache-2.0
//
// Elementwise functions of two tensors. The ways of broadcasting that models
// use most have loops of their own: one of the tensors is a number, a row (a
// bias), or one number for each of the middle axes (a channel).
#include <memory>
#include <optional>
#include <string>

#include "ops/strided_copy.h"
#include "providers/cpu/simd/kernels.h"
#include "providers/cpu/simd/operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/binary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

// Either side may be one number that stands for all.
template <class Op>
void MapSides(const float* a, bool a_is_number, const float* b,
              bool b_is_number, float* y, int64_t n, Op op) {
  if (a_is_number) {
    const auto number = hn::Set(FloatTag(), *a);
    Map(b, y, n, [=](auto d, auto v) HWY_ATTR { return op(d, number, v); });
  } else if (b_is_number) {
    const auto number = hn::Set(FloatTag(), *b);
    Map(a, y, n, [=](auto d, auto v) HWY_ATTR { return op(d, v, number); });
  } else {
    Map(a, b, y, n, op);
  }
}

void RunBinary(BinaryOperation operation, const float* a, bool a_is_number,
               const float* b, bool b_is_number, float* y, int64_t n) {
  const auto run = [=](auto op) HWY_ATTR {
    MapSides(a, a_is_number, b, b_is_number, y, n, op);
  };
  switch (operation) {
    case BinaryOperation::kAdd:
      return run([](auto, auto u, auto v) HWY_ATTR { return hn::Add(u, v); });
    case BinaryOperation::kSub:
      return run([](auto, auto u, auto v) HWY_ATTR { return hn::Sub(u, v); });
    case BinaryOperation::kMul:
      return run([](auto, auto u, auto v) HWY_ATTR { return hn::Mul(u, v); });
    case BinaryOperation::kDiv:
      return run([](auto, auto u, auto v) HWY_ATTR { return hn::Div(u, v); });
    case BinaryOperation::kReluGrad:  // dx = dy where x > 0, else 0
      return run([](auto d, auto dy, auto x) HWY_ATTR {
        return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), dy);
      });
    case BinaryOperation::kTanhGrad:  // dx = dy (1 - y^2)
      return run([](auto d, auto dy, auto y) HWY_ATTR {
        return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, 1.0f)));
      });
    case BinaryOperation::kSigmoidGrad:  // dx = dy y (1 - y)
      return run([](auto d, auto dy, auto y) HWY_ATTR {
        return hn::Mul(dy, hn::Mul(y, hn::Sub(hn::Set(d, 1.0f), y)));
      });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(RunBinary);

// The larger tensor is outer x middle x inner; the smaller one has `middle`
// elements. The same shape: outer = inner = 1.
struct Broadcast {
  int64_t outer = 1;
  int64_t middle = 1;
  int64_t inner = 1;
};

std::optional<Broadcast> FindBroadcast(const Shape& large, const Shape& small) {
  if (small.rank() > large.rank()) return std::nullopt;
  const size_t missing = large.rank() - small.rank();
  const auto small_dim = [&](size_t axis) {
    return axis < missing ? 1 : small[axis - missing];
  };
  size_t begin = 0;
  size_t end = large.rank();
  while (begin < end && small_dim(begin) == 1) ++begin;
  while (end > begin && small_dim(end - 1) == 1) --end;
  for (size_t axis = begin; axis < end; ++axis) {
    if (small_dim(axis) != large[axis]) return std::nullopt;
  }
  return Broadcast{.outer = large.element_count(0, begin),
                   .middle = large.element_count(begin, end),
                   .inner = large.element_count(end, large.rank())};
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(BinaryOperation operation, const Broadcast& broadcast,
               bool a_is_small)
      : operation_(operation), shape_(broadcast), a_is_small_(a_is_small) {}

  void Run(const KernelContext& context) override {
    const float* a = static_cast<const float*>(context.input(0).data());
    const float* b = static_cast<const float*>(context.input(1).data());
    float* y = static_cast<float*>(context.output(0).data());
    // Whole rows, or runs that meet one number of the smaller tensor.
    if (shape_.outer == 1 && shape_.inner == 1) {
      context.ParallelFor(shape_.middle, kCost,
                          [=, this](int64_t i, int64_t end) {
                            Call(a + i, false, b + i, false, y + i, end - i);
                          });
    } else if (shape_.middle == 1) {
      context.ParallelFor(shape_.outer * shape_.inner, kCost,
                          [=, this](int64_t i, int64_t end) {
                            Call(a_is_small_ ? a : a + i, a_is_small_,
                                 a_is_small_ ? b + i : b, !a_is_small_, y + i,
                                 end - i);
                          });
    } else if (shape_.inner == 1) {
      const int64_t n = shape_.middle;
      context.ParallelFor(shape_.outer, kCost * static_cast<double>(n),
                          [=, this](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              Call(a_is_small_ ? a : a + i * n, false,
                                   a_is_small_ ? b + i * n : b, false,
                                   y + i * n, n);
                            }
                          });
    } else {
      const int64_t n = shape_.inner;
      context.ParallelFor(
          shape_.outer * shape_.middle, kCost * static_cast<double>(n),
          [=, this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t small = i % shape_.middle;
              Call(a_is_small_ ? a + small : a + i * n, a_is_small_,
                   a_is_small_ ? b + i * n : b + small, !a_is_small_, y + i * n,
                   n);
            }
          });
    }
  }

 private:
  static constexpr double kCost = 0.15;  // nanoseconds an element

  void Call(const float* a, bool a_is_number, const float* b, bool b_is_number,
            float* y, int64_t n) const {
    HWY_DYNAMIC_DISPATCH(RunBinary)
    (operation_, a, a_is_number, b, b_is_number, y, n);
  }

  BinaryOperation operation_;
  Broadcast shape_;
  bool a_is_small_;
};

// Any other way of broadcasting, as of a mask over the middle axes.
class BroadcastKernel final : public Kernel {
 public:
  // `axes` walks along the result, with the steps of a and b.
  BroadcastKernel(BinaryOperation operation, const ops::StridedCopy& axes)
      : operation_(operation), axes_(axes) {
    for (size_t i = 0; i + 1 < axes_.rank; ++i) rows_ *= axes_.dims[i];
  }

  void Run(const KernelContext& context) override {
    const float* a = static_cast<const float*>(context.input(0).data());
    const float* b = static_cast<const float*>(context.input(1).data());
    float* y = static_cast<float*>(context.output(0).data());
    const size_t inner = axes_.rank - 1;
    const int64_t n = axes_.dims[inner];
    context.ParallelFor(rows_, 5 + 0.15 * static_cast<double>(n),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            int64_t rest = row, a_at = 0, b_at = 0;
                            for (size_t i = inner; i-- > 0;) {
                              const int64_t at = rest % axes_.dims[i];
                              rest /= axes_.dims[i];
                              a_at += at * axes_.from_strides[i];
                              b_at += at * axes_.to_strides[i];
                            }
                            HWY_DYNAMIC_DISPATCH(RunBinary)
                            (operation_, a + a_at,
                             axes_.from_strides[inner] == 0, b + b_at,
                             axes_.to_strides[inner] == 0, y + row * n, n);
                          }
                        });
  }

 private:
  BinaryOperation operation_;
  ops::StridedCopy axes_;
  int64_t rows_ = 1;
};

// The walk along `y` with the steps of two tensors that broadcast to it.
ops::StridedCopy BroadcastAxes(const Shape& a, const Shape& b, const Shape& y) {
  const auto a_steps = ops::BroadcastStrides(a, y);
  const auto b_steps = ops::BroadcastStrides(b, y);
  ops::StridedCopy axes;
  for (size_t i = 0; i < y.rank(); ++i) {
    axes.AddAxis(y[i], a_steps[i], b_steps[i]);
  }
  return axes;
}

}  // namespace

KernelChoice ChooseBinary(const KernelRequest& request,
                          BinaryOperation operation) {
  if (request.inputs.size() != 2) {  // of Sum
    return KernelChoice::Decline("not two inputs");
  }
  const KernelInput& a = request.inputs[0];
  const KernelInput& b = request.inputs[1];
  for (const KernelInput* input : {&a, &b}) {
    if (input->info.type != DataType::kFloat32) {
      return KernelChoice::Decline(DataTypeName(input->info.type));
    }
  }
  const Shape& shape = request.outputs[0].shape;
  KernelChoice choice;
  if (a.info.shape == b.info.shape) {
    Layout layout = Layout::kPlain;
    if (request.op.keeps_zero) {
      layout = a.layout != Layout::kPlain ? a.layout : b.layout;
    }
    const int64_t size = StoredElementCount(shape, layout);
    choice.kernel = std::make_unique<BinaryKernel>(
        operation, Broadcast{.middle = size}, false);
    choice.input_layouts = {layout, layout};
    choice.output_layouts = {layout};
  } else {
    const bool a_is_small = b.info.shape == shape;
    const bool b_is_small = !a_is_small && a.info.shape == shape;
    std::optional<Broadcast> broadcast;
    if (a_is_small || b_is_small) {
      broadcast = FindBroadcast(shape, (a_is_small ? a : b).info.shape);
    }
    if (broadcast) {
      choice.kernel =
          std::make_unique<BinaryKernel>(operation, *broadcast, a_is_small);
    } else {
      const auto axes = BroadcastAxes(a.info.shape, b.info.shape, shape);
      if (axes.rank == 0) return KernelChoice::Decline("one element");
      choice.kernel = std::make_unique<BroadcastKernel>(operation, axes);
    }
  }
  choice.flops = static_cast<double>(shape.element_count());
  return choice;
}

}  // namespace strop
#endif  // HWY_ONCE
