// SPDX-License-Identifier: Apache-2.0
//
// Gelu in its exact, tanh and sigmoid forms, and their gradients.
#include <numbers>

#include "ops/activations.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"

namespace strop::ops {
namespace {

// x Phi(x), Phi the distribution function of the normal distribution
template <class T>
T GeluExact(T x) {
  constexpr T kRoot = std::numbers::sqrt2_v<T> / 2;
  return x * (1 + std::erf(x * kRoot)) / 2;
}

// Phi(x) + x phi(x), phi its density
template <class T>
T GeluExactSlope(T x) {
  constexpr T kRoot = std::numbers::sqrt2_v<T> / 2;
  constexpr T kDensity = std::numbers::inv_sqrtpi_v<T> * kRoot;
  return (1 + std::erf(x * kRoot)) / 2 + x * kDensity * std::exp(-x * x / 2);
}

// sqrt(2 / pi) and the coefficient of the cubic term
template <class T>
constexpr T kTanhScale =
    std::numbers::sqrt2_v<T>* std::numbers::inv_sqrtpi_v<T>;
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);

template <class T>
T GeluTanh(T x) {
  const T t = std::tanh(kTanhScale<T> * (x + kCubic<T> * x * x * x));
  return x * (1 + t) / 2;
}

template <class T>
T GeluTanhSlope(T x) {
  const T t = std::tanh(kTanhScale<T> * (x + kCubic<T> * x * x * x));
  const T inner = kTanhScale<T> * (1 + 3 * kCubic<T> * x * x);
  return (1 + t) / 2 + x * (1 - t * t) * inner / 2;
}

constexpr float kQuickAlpha = 1.702f;

// The gradients with a bias take dY, X and a bias for the last axis.
void InferBias(InferContext& c, size_t x, size_t bias) {
  RequireSameType(c, x, bias);
  const Shape& shape = c.input(x).shape;
  if (shape.rank() == 0) Fail(c.node(), "wants at least one axis");
  RequireShape(c, bias, {shape[shape.rank() - 1]});
  SameAsInput(c);
}

void InferBiasGelu(InferContext& c) {
  if (c.has_input(1)) InferBias(c, 0, 1);
  SameAsInput(c);
}

void InferBiasGeluGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  InferBias(c, 1, 2);
}

template <class F>
constexpr ReferenceKernel WithOptionalBias(F) {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const T* x = c.in<T>(0).data();
    const T* bias = c.has_input(1) ? c.in<T>(1).data() : nullptr;
    T* y = c.out<T>(0).data();
    const Shape& shape = c.input(0).shape();
    const int64_t last = shape.rank() > 0 ? shape[shape.rank() - 1] : 1;
    c.ParallelFor(shape.element_count(), 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y[i] = F{}(bias ? x[i] + bias[i % last] : x[i]);
      }
    });
  });
}

// dx = dy slope(x + bias)
template <class F>
constexpr ReferenceKernel BiasGradient(F) {
  return Instantiate<Floats>([]<class T>(const KernelContext& c) {
    const T* dy = c.in<T>(0).data();
    const T* x = c.in<T>(1).data();
    const T* bias = c.in<T>(2).data();
    T* dx = c.out<T>(0).data();
    const Shape& shape = c.input(1).shape();
    const int64_t last = shape[shape.rank() - 1];
    c.ParallelFor(shape.element_count(), 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        dx[i] = dy[i] * F{}(x[i] + bias[i % last]);
      }
    });
  });
}

// --- Gradients

void BiasedGradient(GradientContext& c, std::string_view op_type) {
  const Var dx = c.build().MicrosoftOp(op_type, {c.dy(), c.x(), c.x(1)});
  c.Set(0, dx);
  c.SetReduced(1, dx);
}

void FastGeluGradient(GradientContext& c) {
  if (c.has_input(1)) return BiasedGradient(c, "BiasFastGeluGrad_dX");
  c.Set(0, c.build().MicrosoftOp("FastGeluGrad", {c.dy(), c.x()}));
}

}  // namespace

// Attribute approximate: "none" or "tanh".
extern constexpr OpDef kGelu = {
    .name = "Gelu",
    .since = 20,
    .infer =
        [](InferContext& c) {
          const std::string_view form = c.node().String("approximate", "none");
          if (form != "none" && form != "tanh") {
            Fail(c.node(), "attribute approximate is \"{}\"", form);
          }
          SameAsInput(c);
        },
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      using Kernel = T (*)(T);
      const Kernel f = c.node().String("approximate", "none") == "tanh"
                           ? &GeluTanh<T>
                           : &GeluExact<T>;
      const T* x = c.in<T>(0).data();
      T* y = c.out<T>(0).data();
      c.ParallelFor(c.output(0).element_count(), 15,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
                    });
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      const bool tanh = c.node().String("approximate", "none") == "tanh";
      c.Set(0, c.build().MicrosoftOp(tanh ? "FastGeluGrad" : "GeluGrad",
                                     {c.dy(), c.x()}));
    })};

extern constexpr OpDef kGeluMicrosoft = {
    .name = "Gelu",
    .domain = kMicrosoft,
    .infer = SameAsInput,
    .reference = Unary<Floats, 15>([](auto x) { return GeluExact(x); }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp("GeluGrad", {c.dy(), c.x()}));
    })};

extern constexpr OpDef kGeluGrad = {
    .name = "GeluGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = Pairwise<Floats, 20>(
        [](auto dy, auto x) { return dy * GeluExactSlope(x); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true};

// Gelu(A + B), B along the last axis
extern constexpr OpDef kBiasGelu = {
    .name = "BiasGelu",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = InferBiasGelu,
    .reference = WithOptionalBias([](auto x) { return GeluExact(x); }),
    .may_overwrite = {0},
    .gradient =
        Rule([](GradientContext& c) { BiasedGradient(c, "BiasGeluGrad_dX"); })};

extern constexpr OpDef kBiasGeluGrad = {
    .name = "BiasGeluGrad_dX",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferBiasGeluGrad,
    .reference = BiasGradient([](auto x) { return GeluExactSlope(x); }),
    .may_overwrite = {0, 1}};

// The tanh form of Gelu(X + bias), bias optional
extern constexpr OpDef kFastGelu = {
    .name = "FastGelu",
    .domain = kMicrosoft,
    .inputs = {1, 2},
    .infer = InferBiasGelu,
    .reference = WithOptionalBias([](auto x) { return GeluTanh(x); }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(FastGeluGradient)};

extern constexpr OpDef kFastGeluGrad = {
    .name = "FastGeluGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = Pairwise<Floats, 20>(
        [](auto dy, auto x) { return dy * GeluTanhSlope(x); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true};

extern constexpr OpDef kBiasFastGeluGrad = {
    .name = "BiasFastGeluGrad_dX",
    .domain = kMicrosoft,
    .inputs = {3, 3},
    .infer = InferBiasGeluGrad,
    .reference = BiasGradient([](auto x) { return GeluTanhSlope(x); }),
    .may_overwrite = {0, 1}};

// x sigmoid(alpha x)
extern constexpr OpDef kQuickGelu = {
    .name = "QuickGelu",
    .domain = kMicrosoft,
    .infer = SameAsInput,
    .reference = UnaryWith<Floats, 6>([](const OpNode& node) {
      return [alpha = node.Float("alpha", kQuickAlpha)](auto x) {
        return x * Logistic(static_cast<decltype(x)>(alpha) * x);
      };
    }),
    .may_overwrite = {0},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().MicrosoftOp(
                   "QuickGeluGrad", {c.dy(), c.x()},
                   {{"alpha", c.node().Float("alpha", kQuickAlpha)}}));
    })};

extern constexpr OpDef kQuickGeluGrad = {
    .name = "QuickGeluGrad",
    .domain = kMicrosoft,
    .inputs = {2, 2},
    .infer = SameAsInputs,
    .reference = PairwiseWith<Floats, 8>([](const OpNode& node) {
      return [alpha = node.Float("alpha", kQuickAlpha)](auto dy, auto x) {
        const auto a = static_cast<decltype(x)>(alpha);
        const auto s = Logistic(a * x);
        return dy * s * (1 + a * x * (1 - s));
      };
    }),
    .may_overwrite = {0, 1},
    .keeps_zero = true};

}  // namespace strop::ops
