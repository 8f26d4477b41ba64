// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/number.h"

namespace strop::ops {
namespace {

using PowTypes = TypeList<float, double, int32_t, int64_t>;
using ExponentTypes =
    TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t, Float16, Bfloat16>;

// By squaring, wrapping around. A negative exponent gives 1 / x^|n| rounded
// towards zero.
template <class T, class E>
T IntegerPow(T x, E exponent) {
  if (exponent < 0) {
    if (x == 1) return 1;
    if (x == -1) return exponent % 2 == 0 ? T{1} : T{-1};
    return 0;
  }
  T result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result = Times(result, x);
    x = Times(x, x);
  }
  return result;
}

template <class T, class E>
T Power(T x, E exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
    return IntegerPow(x, exponent);
  } else {
    return FromDouble<T>(std::pow(static_cast<double>(x), ToDouble(exponent)));
  }
}

template <class T, class E>
void RunPow(const KernelContext& c) {
  const Tensor& exponents = c.input(1);
  if (exponents.element_count() == 1 && std::is_floating_point_v<T>) {
    // The squares and roots of losses and norms.
    const auto apply = [&](auto f) {
      RunBinary<T, E, T>(c, c.input(0), exponents, c.output(0), 1, f);
    };
    const double e = ToDouble(exponents.values<E>()[0]);
    if (e == 2) return apply([](T x, E) { return Times(x, x); });
    if (e == 3) return apply([](T x, E) { return Times(Times(x, x), x); });
    if (e == 1) return apply([](T x, E) { return x; });
  }
  RunBinary<T, E, T>(c, c.input(0), exponents, c.output(0), 20,
                     [](T x, E e) { return Power(x, e); });
}

void InferPow(InferContext& c) {
  c.SetOutput(0, c.input(0).type,
              BroadcastShapes(c.node(), c.input(0).shape, c.input(1).shape));
}

// --- Gradients

// dx = dy e x^(e - 1), 0 where e = 0
void PowBaseGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const auto constant = b.ConstantScalar(c.x(1));
  if (constant == 1) return c.SetReduced(0, c.dy());
  if (constant == 2) return c.SetReduced(0, c.dy() * (c.x() * 2));
  const Var e = b.Cast(c.x(1), type);
  const Var slope = e * b.Op("Pow", {c.x(), e - 1});
  const Var zero = b.Scalar(0, type);
  c.SetReduced(0, c.dy() * b.Where(b.Compare("Equal", e, zero), zero, slope));
}

// de = dy y ln x, 0 where x = 0 and e >= 0
void PowExponentGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var zero = b.Scalar(0, type);
  const Var slope = c.y() * b.Op("Log", {c.x()});
  const Var at_zero = b.Compare("Equal", c.x(), zero);
  const Var negative = b.Compare("Less", b.Cast(c.x(1), type), zero);
  const Var flat = b.Compare("And", at_zero, b.Op("Not", {negative}));
  const Var gradient = c.dy() * b.Where(flat, zero, slope);
  c.SetReduced(1, b.Cast(gradient, b.type(c.x(1))));
}

void PowGradient(GradientContext& c) {
  if (c.needs(0)) PowBaseGradient(c);
  if (c.needs(1)) PowExponentGradient(c);
}

}  // namespace

// z = x^y; the exponent may have a type of its own.
extern constexpr OpDef kPow = {
    .name = "Pow",
    .inputs = {2, 2},
    .infer = InferPow,
    .reference = Instantiate<PowTypes>([]<class T>(const KernelContext& c) {
      if (!DispatchType(ExponentTypes{}, c.input(1).type(),
                        [&]<class E>() { RunPow<T, E>(c); })) {
        Fail(c.node(), ErrorCode::kNotImplemented,
             "exponents of type {} are not supported",
             DataTypeName(c.input(1).type()));
      }
    }),
    .may_overwrite = {0},
    .cheap = true,
    .gradient = Rule(PowGradient)};

}  // namespace strop::ops
