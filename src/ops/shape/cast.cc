// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/half.h"
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// Every element goes through the widest type of its kind, so that there are
// as many loops as types, not as pairs of types.
template <class T>
using WidestOf = std::conditional_t<
    std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16> ||
        std::is_floating_point_v<T>,
    double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
WidestOf<T> Load(T x) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return ToFloat(x);
  } else {
    return static_cast<WidestOf<T>>(x);
  }
}

// Fractions are cut off; what an integer type cannot hold becomes its
// nearest number, and NaN 0. Integers wrap around among themselves.
template <class T, class W>
T Store(W x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<W, double>) {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(x)) return 0;
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    if (x >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <class W, class From>
void CastThrough(const KernelContext& c) {
  constexpr int64_t kBlock = 256;
  const From* x = c.in<From>(0).data();
  const Tensor& y = c.output(0);
  const bool known = DispatchType(AllTypes{}, y.type(), [&]<class To>() {
    To* out = y.values<To>().data();
    c.ParallelFor(y.element_count(), 2, [&](int64_t begin, int64_t end) {
      W wide[kBlock];
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t count = std::min(kBlock, end - i);
        for (int64_t j = 0; j < count; ++j) wide[j] = Load(x[i + j]);
        for (int64_t j = 0; j < count; ++j) out[i + j] = Store<To>(wide[j]);
      }
    });
  });
  if (!known) {
    Fail(c.node(), ErrorCode::kNotImplemented, "casts to {} not",
         DataTypeName(y.type()));
  }
}

DataType TargetType(const OpNode& node) {
  const auto type = static_cast<DataType>(node.Int("to"));
  if (!DispatchType(AllTypes{}, type, []<class T>() {})) {
    Fail(node, ErrorCode::kNotImplemented, "does not cast to {}",
         DataTypeName(type));
  }
  return type;
}

void InferCast(InferContext& c) {
  c.SetOutput(0, TargetType(c.node()), c.input(0).shape);
}

void InferCastLike(InferContext& c) {
  c.SetOutput(0, c.input(1).type, c.input(0).shape);
}

constexpr ReferenceKernel kCastKernel = Instantiate<AllTypes>(
    []<class T>(const KernelContext& c) { CastThrough<WidestOf<T>, T>(c); });

}  // namespace

extern constexpr OpDef kCast = {
    .name = "Cast",
    .infer = InferCast,
    .reference = kCastKernel,
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().Cast(c.dy(), c.build().type(c.x())));
    })};

extern constexpr OpDef kCastLike = {
    .name = "CastLike",
    .inputs = {2, 2},
    .infer = InferCastLike,
    .reference = kCastKernel,
    .shape_inputs = {1},
    .keeps_zero = true,
    .cheap = true,
    .gradient = Rule([](GradientContext& c) {
      c.Set(0, c.build().Cast(c.dy(), c.build().type(c.x())));
    }),
    .stops_gradient = {1}};

}  // namespace strop::ops
