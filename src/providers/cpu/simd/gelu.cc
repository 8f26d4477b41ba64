// SPDX-License-Identifier: Apache-2.0
//
// Gelu in its exact and tanh forms, with and without a bias, and the
// gradients.
//
// Errors against double arithmetic over [-6, 6] (elementwise_test.cc): the
// exact form less than 2e-6 of the result and its slope less than 1e-6, the
// tanh form less than 1e-6 of x and its slope less than 2e-6.
#include <memory>

#include "providers/cpu/simd/fetch_ahead.h"
#include "providers/cpu/simd/kernels.h"
#include "providers/cpu/simd/operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/simd/gelu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h:
#include "providers/cpu/simd/math-inl.h"
#include "providers/cpu/simd/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strop {
namespace HWY_NAMESPACE {

struct NormalDistribution {
  FloatVec phi;    // exp(-x^2 / 2): the density but for its constant factor
  FloatVec below;  // Phi(x): the probability of less than x
};

// Phi(-|x|) = exp(-x^2 / 2) t P(t) with t = 1 / (1 + 0.27 |x|). P was fitted
// for the least relative error, 2.3e-8, over [-13, 0]. A NaN may be lost: the
// callers multiply with x.
HWY_INLINE NormalDistribution Normal(FloatTag d, FloatVec x) {
  constexpr float kP[] = {0.107719446f,  0.107562181f,  0.101681195f,
                          0.0725268665f, 0.106763887f,  -0.0677478766f,
                          0.168563943f,  -0.125918337f, 0.0288487073f};
  const auto one = hn::Set(d, 1.0f);
  const auto phi = hn::Exp(d, hn::Mul(hn::Mul(x, hn::Set(d, -0.5f)), x));
  const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.27f), one));
  auto p = hn::Set(d, kP[8]);
  for (int i = 7; i >= 0; --i) p = hn::MulAdd(p, t, hn::Set(d, kP[i]));
  const auto tail = hn::Mul(hn::Mul(p, t), phi);
  const auto is_negative = hn::Lt(x, hn::Zero(d));
  return {phi, hn::IfThenElse(is_negative, tail, hn::Sub(one, tail))};
}

HWY_INLINE FloatVec GeluExact(FloatTag d, FloatVec x) {
  return hn::Mul(x, Normal(d, x).below);
}

// Phi(x) + x phi(x)
HWY_INLINE FloatVec GeluExactSlope(FloatTag d, FloatVec x) {
  constexpr float kInverseRootOf2Pi = 0.398942280f;
  const NormalDistribution normal = Normal(d, x);
  return hn::MulAdd(hn::Mul(x, hn::Set(d, kInverseRootOf2Pi)), normal.phi,
                    normal.below);
}

// The tanh form is x s, where
//   s = (1 + tanh(u)) / 2 = Sigmoid(2 u), 2 u = kLinear x + kCubic x^3.
constexpr float kLinear = 1.59576912f;  // 2 sqrt(2 / pi)
constexpr float kCubic = kLinear * 0.044715f;

HWY_INLINE FloatVec GeluTanh(FloatTag d, FloatVec x) {
  const auto square = hn::Mul(x, x);
  const auto slope =
      hn::MulAdd(square, hn::Set(d, kCubic), hn::Set(d, kLinear));
  return hn::Mul(x, Sigmoid(d, hn::Mul(x, slope)));
}

// s + x s (1 - s) (2 u)'
HWY_INLINE FloatVec GeluTanhSlope(FloatTag d, FloatVec x) {
  const auto one = hn::Set(d, 1.0f);
  const auto linear = hn::Set(d, kLinear);
  const auto square = hn::Mul(x, x);
  const auto s =
      Sigmoid(d, hn::Mul(x, hn::MulAdd(square, hn::Set(d, kCubic), linear)));
  const auto inner = hn::MulAdd(square, hn::Set(d, 3 * kCubic), linear);
  return hn::Mul(s, hn::MulAdd(hn::Mul(x, hn::Sub(one, s)), inner, one));
}

// One row, or everything where there is no bias.
void RunGelu(bool tanh, const float* x, const float* bias, float* y,
             int64_t n) {
  const auto run = [=](auto function) HWY_ATTR {
    const FloatTag d;
    ForEachVector(n, [=](auto at) HWY_ATTR {
      FetchAheadToRead(x + at.i);
      FetchAheadToWrite(y + at.i);
      auto v = at.Load(x);
      if (bias != nullptr) v = hn::Add(v, at.Load(bias));
      at.Store(function(d, v), y);
    });
  };
  if (tanh) {
    run([](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
  } else {
    run([](auto d, auto v) HWY_ATTR { return GeluExact(d, v); });
  }
}

void RunGeluGrad(bool tanh, const float* dy, const float* x, const float* bias,
                 float* dx, int64_t n) {
  const auto run = [=](auto slope) HWY_ATTR {
    const FloatTag d;
    ForEachVector(n, [=](auto at) HWY_ATTR {
      FetchAheadToRead(dy + at.i);
      FetchAheadToRead(x + at.i);
      FetchAheadToWrite(dx + at.i);
      auto v = at.Load(x);
      if (bias != nullptr) v = hn::Add(v, at.Load(bias));
      at.Store(hn::Mul(at.Load(dy), slope(d, v)), dx);
    });
  };
  if (tanh) {
    run([](auto d, auto v) HWY_ATTR { return GeluTanhSlope(d, v); });
  } else {
    run([](auto d, auto v) HWY_ATTR { return GeluExactSlope(d, v); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strop
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strop {
namespace {

HWY_EXPORT(RunGelu);
HWY_EXPORT(RunGeluGrad);

constexpr double kCost = 1;  // nanoseconds an element

const float* Floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.input(input).data());
}

// Calls fn(begin, n, has_bias) for whole rows where there is a bias, else for
// pieces of any length.
template <class F>
void ForEachRow(const KernelContext& context, int64_t rows, int64_t columns,
                bool has_bias, F fn) {
  if (!has_bias) {
    context.ParallelFor(rows * columns, kCost, [&](int64_t begin, int64_t end) {
      fn(begin, end - begin);
    });
    return;
  }
  context.ParallelFor(rows, kCost * static_cast<double>(columns),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          fn(i * columns, columns);
                        }
                      });
}

struct GeluOptions {
  bool tanh = false;
  bool has_bias = false;
  int64_t rows = 1;
  int64_t columns = 1;
};

// x, bias (optional) -> y
class GeluKernel final : public Kernel {
 public:
  explicit GeluKernel(const GeluOptions& options) : options_(options) {}

  void Run(const KernelContext& context) override {
    const float* x = Floats(context, 0);
    const float* bias = options_.has_bias ? Floats(context, 1) : nullptr;
    float* y = static_cast<float*>(context.output(0).data());
    ForEachRow(context, options_.rows, options_.columns, options_.has_bias,
               [&](int64_t begin, int64_t n) {
                 HWY_DYNAMIC_DISPATCH(RunGelu)
                 (options_.tanh, x + begin, bias, y + begin, n);
               });
  }

 private:
  GeluOptions options_;
};

// dy, x, bias (optional) -> dx
class GeluGradKernel final : public Kernel {
 public:
  explicit GeluGradKernel(const GeluOptions& options) : options_(options) {}

  void Run(const KernelContext& context) override {
    const float* dy = Floats(context, 0);
    const float* x = Floats(context, 1);
    const float* bias = options_.has_bias ? Floats(context, 2) : nullptr;
    float* dx = static_cast<float*>(context.output(0).data());
    ForEachRow(context, options_.rows, options_.columns, options_.has_bias,
               [&](int64_t begin, int64_t n) {
                 HWY_DYNAMIC_DISPATCH(RunGeluGrad)
                 (options_.tanh, dy + begin, x + begin, bias, dx + begin, n);
               });
  }

 private:
  GeluOptions options_;
};

// `x` is the input that has the shape, the bias the one after it.
template <class KernelType>
KernelChoice Choose(const KernelRequest& request, size_t x, bool tanh) {
  const TensorInfo& info = request.inputs[x].info;
  if (info.type != DataType::kFloat32) {
    return KernelChoice::Decline(DataTypeName(info.type));
  }
  GeluOptions options = {.tanh = tanh, .has_bias = request.has_input(x + 1)};
  const Shape& shape = info.shape;
  if (options.has_bias) {
    options.columns = shape[shape.rank() - 1];
    options.rows = shape.element_count(0, shape.rank() - 1);
  } else {
    options.columns = shape.element_count();
  }
  KernelChoice choice;
  choice.kernel = std::make_unique<KernelType>(options);
  return choice;
}

}  // namespace

KernelChoice ChooseGelu(const KernelRequest& request, bool tanh) {
  const std::string_view form = request.node.String("approximate", "none");
  return Choose<GeluKernel>(request, 0, tanh || form == "tanh");
}

KernelChoice ChooseGeluGrad(const KernelRequest& request, bool tanh) {
  return Choose<GeluGradKernel>(request, 1, tanh);
}

}  // namespace strop
#endif  // HWY_ONCE
