// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise.h"

namespace strop::ops {
namespace {

using PowTypes = TypeList<float, double, int32_t, int64_t>;

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

template <class T>
T FromDouble(double x) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    if (std::isnan(x)) return 0;
    if (x <= kLow) return std::numeric_limits<T>::min();
    if (x >= -kLow) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(x);
}

template <class T, class E>
T Power(T x, E exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
    return IntegerPow(x, exponent);
  } else {
    return FromDouble<T>(
        std::pow(static_cast<double>(x), static_cast<double>(exponent)));
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
    const double e = static_cast<double>(exponents.values<E>()[0]);
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

}  // namespace

// z = x^y; the exponent may have a type of its own.
extern constexpr OpDef kPow = {
    .name = "Pow",
    .inputs = {2, 2},
    .infer = InferPow,
    .reference = Instantiate<PowTypes>([]<class T>(const KernelContext& c) {
      if (!DispatchType(PowTypes{}, c.input(1).type(),
                        [&]<class E>() { RunPow<T, E>(c); })) {
        Fail(c.node(), ErrorCode::kNotImplemented,
             "exponents of type {} are not supported",
             DataTypeName(c.input(1).type()));
      }
    }),
    .may_overwrite = {0},
    .cheap = true};

}  // namespace strop::ops
