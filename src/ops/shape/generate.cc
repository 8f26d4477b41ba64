// SPDX-License-Identifier: Apache-2.0
//
// Ops that make tensors from few numbers: Range, OneHot, NonZero.
#include <cmath>
#include <type_traits>

#include "ops/gradient.h"
#include "ops/number.h"

namespace strop::ops {
namespace {

using RangeTypes =
    TypeList<float, double, int16_t, int32_t, int64_t, Float16, Bfloat16>;

// The type that a range of T is counted in.
template <class T>
using RangeNumber = std::conditional_t<std::is_arithmetic_v<T>, T, double>;

template <class T>
RangeNumber<T> NumberAt(const Tensor& tensor) {
  if constexpr (std::is_arithmetic_v<T>) {
    return tensor.values<T>()[0];
  } else {
    return ToDouble(tensor.values<T>()[0]);
  }
}

// start, limit, delta: ceil((limit - start) / delta) numbers, none if that
// is negative.
template <class T>
int64_t RangeCount(const OpNode& node, T start, T limit, T delta) {
  if (delta == 0) Fail(node, "delta is 0");
  double count;
  if constexpr (std::is_integral_v<T>) {
    // Whole numbers beyond 2^53 are not doubles: divided as they are. Their
    // distance fits the unsigned type.
    const bool up = delta > 0;
    if (up ? limit <= start : limit >= start) return 0;
    const auto number = [](T x) { return static_cast<uint64_t>(x); };
    const uint64_t span =
        up ? number(limit) - number(start) : number(start) - number(limit);
    const uint64_t step = up ? number(delta) : uint64_t{0} - number(delta);
    count = static_cast<double>(span / step + (span % step != 0 ? 1 : 0));
  } else {
    count =
        std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                  static_cast<double>(delta));
  }
  if (std::isnan(count) || count > 0x1p40) {
    Fail(node, "{} numbers are out of range", count);
  }
  return count <= 0 ? 0 : static_cast<int64_t>(count);
}

void InferRange(InferContext& c) {
  for (size_t i = 0; i < 3; ++i) {
    RequireSameType(c, 0, i);
    RequireOneElement(c, i);
  }
  const auto set = [&]<class T>() {
    c.SetOutput(0, c.input(0).type,
                {RangeCount(c.node(), NumberAt<T>(c.value(0)),
                            NumberAt<T>(c.value(1)), NumberAt<T>(c.value(2)))});
  };
  if (!DispatchType(RangeTypes{}, c.input(0).type, set)) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "element type {} is not supported", DataTypeName(c.input(0).type));
  }
}

// indices, depth, (off, on)
void InferOneHot(InferContext& c) {
  const Shape& indices = c.input(0).shape;
  RequireOneElement(c, 1);
  RequireShape(c, 2, {2});
  const double depth = ScalarAsDouble(c.node(), c.value(1));
  if (!(depth >= 1 && depth <= 0x1p40)) {
    Fail(c.node(), "the depth is {}", depth);
  }
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", -1), indices.rank() + 1);
  std::vector<int64_t> dims(indices.begin(), indices.end());
  dims.insert(dims.begin() + static_cast<int64_t>(axis),
              static_cast<int64_t>(depth));
  c.SetOutput(0, c.input(2).type, Shape(dims));
}

using IndexNumbers =
    TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t,
             uint16_t, uint32_t, uint64_t, Float16, Bfloat16>;

// An index out of range gives no `on` at all.
template <class T>
void OneHot(const KernelContext& c) {
  const Shape& y_shape = c.output(0).shape();
  const size_t axis =
      NormalizeAxis(c.node(), c.node().Int("axis", -1), y_shape.rank());
  const int64_t depth = y_shape[axis];
  const int64_t inner = y_shape.element_count(axis + 1, y_shape.rank());
  const auto values = c.in<T>(2);
  const auto y = c.out<T>(0);
  std::fill(y.begin(), y.end(), values[0]);
  const bool known =
      DispatchType(IndexNumbers{}, c.input(0).type(), [&]<class I>() {
        const auto indices = c.in<I>(0);
        for (size_t i = 0; i < indices.size(); ++i) {
          const double raw = ToDouble(indices[i]);
          if (!(raw >= -static_cast<double>(depth) &&
                raw < static_cast<double>(depth))) {
            continue;
          }
          const int64_t at = static_cast<int64_t>(i);
          const int64_t index = static_cast<int64_t>(raw);
          y[static_cast<size_t>(
              (at / inner * depth + (index < 0 ? index + depth : index)) *
                  inner +
              at % inner)] = values[1];
        }
      });
  if (!known) Fail(c.node(), "the indices must be numbers");
}

// x -> the positions of its elements that are not 0, one row per axis.
void InferNonZero(InferContext& c) {
  const Tensor& x = c.value(0);
  int64_t count = 0;
  const bool known = DispatchType(AllTypes{}, x.type(), [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      for (const T value : x.values<T>()) count += value != T{0};
    } else {  // both zeros of a half have nothing but a sign bit
      for (const T value : x.values<T>()) count += (value.bits & 0x7fff) != 0;
    }
  });
  if (!known) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "element type {} is not supported", DataTypeName(x.type()));
  }
  const int64_t rank =
      std::max<int64_t>(1, static_cast<int64_t>(x.shape().rank()));
  c.SetOutput(0, DataType::kInt64, {rank, count});
}

template <class T>
void NonZero(const KernelContext& c) {
  const auto x = c.in<T>(0);
  const Shape& shape = c.input(0).shape();
  const int64_t count = c.output(0).shape()[1];
  int64_t* y = c.out<int64_t>(0).data();
  int64_t found = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    bool zero;
    if constexpr (std::is_arithmetic_v<T>) {
      zero = x[i] == T{0};
    } else {
      zero = (x[i].bits & 0x7fff) == 0;
    }
    if (zero) continue;
    int64_t rest = static_cast<int64_t>(i);
    if (shape.rank() == 0) y[found] = 0;
    for (size_t axis = shape.rank(); axis-- > 0;) {
      y[static_cast<int64_t>(axis) * count + found] = rest % shape[axis];
      rest /= shape[axis];
    }
    ++found;
  }
}

// --- Gradients

// values = [off, on]: the sums of dy where y is on, and of all the others.
void OneHotGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x(2));
  const auto pair = [&](double off, double on) {
    const Var both[] = {b.Unsqueeze(b.Scalar(off, type), {0}),
                        b.Unsqueeze(b.Scalar(on, type), {0})};
    return b.Op("Concat", both, {{"axis", int64_t{0}}});
  };
  const auto sum_where = [&](Var values) {
    const Var chosen = b.Op("OneHot", {c.x(0), c.x(1), values},
                            {{"axis", c.node().Int("axis", -1)}}, kOnnx, type);
    return b.Reshape(b.ReduceSum(c.dy() * chosen, {}, /*keepdims=*/false),
                     b.Ints({1}));
  };
  const Var sums[] = {sum_where(pair(1, 0)), sum_where(pair(0, 1))};
  c.Set(2, b.Op("Concat", sums, {{"axis", int64_t{0}}}));
}

}  // namespace

// Its numbers must be known before a plan is made; no gradient flows.
extern constexpr OpDef kRange = {
    .name = "Range",
    .inputs = {3, 3},
    .infer = InferRange,
    .reference = Instantiate<RangeTypes>([]<class T>(const KernelContext& c) {
      using N = RangeNumber<T>;
      const N start = NumberAt<T>(c.input(0)), delta = NumberAt<T>(c.input(2));
      const auto y = c.out<T>(0);
      for (size_t i = 0; i < y.size(); ++i) {
        const N number = Plus<N>(start, Times<N>(static_cast<N>(i), delta));
        if constexpr (std::is_same_v<N, T>) {
          y[i] = number;
        } else {
          y[i] = FromDouble<T>(number);
        }
      }
    }),
    .value_inputs = {0, 1, 2},
    .stops_gradient = {0, 1, 2}};

extern constexpr OpDef kOneHot = {
    .name = "OneHot",
    .inputs = {3, 3},
    .infer = InferOneHot,
    .reference = Instantiate<AllTypes, 2>(
        []<class T>(const KernelContext& c) { OneHot<T>(c); }),
    .value_inputs = {1},
    .gradient = Rule(OneHotGradient),
    .stops_gradient = {0, 1}};

extern constexpr OpDef kNonZero = {
    .name = "NonZero",
    .infer = InferNonZero,
    .reference = Instantiate<AllTypes>(
        []<class T>(const KernelContext& c) { NonZero<T>(c); }),
    .value_inputs = {0},
    .stops_gradient = {0}};

}  // namespace strop::ops
