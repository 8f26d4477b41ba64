// SPDX-License-Identifier: Apache-2.0
//
// The Reduce ops: data, axes (optional) -> reduced. Over nothing, a sum is 0
// and a product 1; a mean, a minimum and a maximum of floats are NaN, +inf
// and -inf.
#include <cmath>
#include <limits>

#include "ops/gradient.h"
#include "ops/reduce.h"

namespace strop::ops {
namespace {

using ReduceTypes =
    TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;
using OrderedTypes = TypeList<float, double, int8_t, int32_t, int64_t, uint8_t,
                              uint32_t, uint64_t, bool>;

template <class T>
struct Summing {
  void Add(T x) { sum += static_cast<Wide<T>>(x); }
  T Result(int64_t) const { return static_cast<T>(sum); }
  Wide<T> sum = 0;
};

template <class T>
struct Averaging : Summing<T> {
  T Result(int64_t count) const {
    if constexpr (std::is_integral_v<T>) {
      return count == 0 ? T{0}
                        : static_cast<T>(static_cast<T>(this->sum) /
                                         static_cast<T>(count));
    } else {
      return static_cast<T>(this->sum / static_cast<double>(count));
    }
  }
};

template <class T>
struct Multiplying {
  void Add(T x) { product *= static_cast<Wide<T>>(x); }
  T Result(int64_t) const { return static_cast<T>(product); }
  Wide<T> product = 1;
};

template <class T>
constexpr T kHighest = std::numeric_limits<T>::has_infinity
                           ? std::numeric_limits<T>::infinity()
                           : std::numeric_limits<T>::max();
template <class T>
constexpr T kLowest = std::numeric_limits<T>::has_infinity
                          ? -std::numeric_limits<T>::infinity()
                          : std::numeric_limits<T>::lowest();

template <class T>
struct Minimum {
  void Add(T x) {
    if (x < best || x != x) best = x;
  }
  T Result(int64_t) const { return best; }
  T best = kHighest<T>;
};

template <class T>
struct Maximum {
  void Add(T x) {
    if (x > best || x != x) best = x;
  }
  T Result(int64_t) const { return best; }
  T best = kLowest<T>;
};

template <class T>
struct SummingMagnitudes : Summing<T> {
  void Add(T x) { Summing<T>::Add(x < 0 ? Minus(T{0}, x) : x); }
};

template <class T>
struct SummingSquares {
  void Add(T x) { sum += static_cast<Wide<T>>(x) * static_cast<Wide<T>>(x); }
  T Result(int64_t) const { return static_cast<T>(sum); }
  Wide<T> sum = 0;
};

template <class T>
struct EuclideanNorm : SummingSquares<T> {
  T Result(int64_t) const {
    return static_cast<T>(std::sqrt(static_cast<double>(this->sum)));
  }
};

template <class T>
struct LogOfSum : Summing<T> {
  T Result(int64_t) const {
    return static_cast<T>(std::log(static_cast<double>(this->sum)));
  }
};

// log(sum(exp(x))) with the largest x taken out, so that nothing overflows.
template <class T>
struct LogOfSumOfExp {
  void Add(T x) {
    const double value = static_cast<double>(x);
    if (value == largest) {  // also for two infinities
      sum += 1;
    } else if (value > largest) {
      sum = sum * std::exp(largest - value) + 1;
      largest = value;
    } else {
      sum += std::exp(value - largest);
    }
  }
  T Result(int64_t) const {
    return static_cast<T>(sum == 0 ? -std::numeric_limits<double>::infinity()
                                   : largest + std::log(sum));
  }
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
};

// Everything but name, kernel and domain is alike.
// --- Gradients

// What the node reduces: nothing where it has no axes and says so.
bool ReducesNothing(GradientContext& c) {
  if (c.node().Int("noop_with_empty_axes", 0) == 0) return false;
  if (!c.has_input(1)) return true;
  const auto axes = c.build().ConstantInts(c.x(1));
  if (!axes) c.Fail("its axes must be constant");
  return axes->empty();
}

bool ReducesAll(GradientContext& c) {
  if (!c.has_input(1)) return true;
  const auto axes = c.build().ConstantInts(c.x(1));
  return axes && axes->empty();
}

// A value of the output's shape, so that it broadcasts to the input's.
Var Unreduced(GradientContext& c, Var y) {
  if (c.node().Int("keepdims", 1) != 0 || ReducesNothing(c) || ReducesAll(c))
    return y;
  return c.build().Op("Unsqueeze", {y, c.x(1)});
}

// The sum over the node's axes, which stay with size 1.
Var SumOfGroup(GradientContext& c, Var x) {
  if (ReducesNothing(c)) return x;
  GraphBuilder& b = c.build();
  if (ReducesAll(c)) return b.ReduceSum(x, {}, /*keepdims=*/true);
  return b.Op("ReduceSum", {x, c.x(1)}, {{"keepdims", int64_t{1}}});
}

Var ToInputShape(GradientContext& c, Var y) {
  GraphBuilder& b = c.build();
  return b.Op("Expand", {Unreduced(c, y), b.Shape(c.x())});
}

void ReduceSumGradient(GradientContext& c) {
  c.Set(0, ToInputShape(c, c.dy()));
}

void ReduceMeanGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const auto size = [&](Var x) {
    return b.Cast(b.Op("Size", {x}, {}, kOnnx, DataType::kInt64), type);
  };
  const Var group = size(c.x()) / size(c.y());
  c.Set(0, ToInputShape(c, c.dy() / group));
}

// Elements that are equal to the result share the gradient evenly.
void ReduceExtremeGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var chosen =
      b.Cast(b.Compare("Equal", c.x(), Unreduced(c, c.y())), b.type(c.x()));
  c.Set(0, chosen * (Unreduced(c, c.dy()) / SumOfGroup(c, chosen)));
}

// The product of the others: that of all over x where none is 0; where one
// is, it alone has a gradient, and with two none has.
void ReduceProdGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var zero = b.Scalar(0, type), one = b.Scalar(1, type);
  const Var is_zero = b.Compare("Equal", c.x(), zero);
  const Var zeros = SumOfGroup(c, b.Cast(is_zero, type));
  const Var x = b.Where(is_zero, one, c.x());
  Attributes keep = {
      {"keepdims", int64_t{1}},
      {"noop_with_empty_axes", c.node().Int("noop_with_empty_axes", 0)}};
  if (c.opset() < 18) keep.pop_back();
  const Var product = b.Op("ReduceProd", {x, c.x(1)}, keep);
  const Var alone = b.Compare("And", is_zero, b.Compare("Equal", zeros, one));
  const Var others = b.Where(b.Compare("Equal", zeros, zero), product / x,
                             b.Where(alone, product, zero));
  c.Set(0, Unreduced(c, c.dy()) * others);
}

void ReduceL1Gradient(GradientContext& c) {
  c.Set(0, Unreduced(c, c.dy()) * c.build().Op("Sign", {c.x()}));
}

// dx = x dy / y, 0 where y = 0
void ReduceL2Gradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var zero = b.Scalar(0, b.type(c.x()));
  const Var scale =
      b.Where(b.Compare("Equal", c.y(), zero), zero, c.dy() / c.y());
  c.Set(0, c.x() * Unreduced(c, scale));
}

void ReduceSumSquareGradient(GradientContext& c) {
  c.Set(0, c.x() * Unreduced(c, c.dy() * 2));
}

// dx = dy / sum = dy e^-y
void ReduceLogSumGradient(GradientContext& c) {
  c.Set(0, ToInputShape(c, c.dy() * c.build().Op("Exp", {-c.y()})));
}

// dx = dy e^(x - y)
void ReduceLogSumExpGradient(GradientContext& c) {
  c.Set(0, Unreduced(c, c.dy()) *
               c.build().Op("Exp", {c.x() - Unreduced(c, c.y())}));
}

constexpr OpDef ReduceOp(std::string_view name, ReferenceKernel kernel,
                         GradientRule gradient) {
  return {.name = name,
          .inputs = {1, 2},
          .infer = InferReduce,
          .reference = kernel,
          .value_inputs = {1},
          .gradient = Rule(gradient),
          .stops_gradient = {1}};
}

constexpr OpDef ReduceSumTraining() {
  OpDef op = ReduceOp("ReduceSumTraining", Reduction<ReduceTypes, Summing>(),
                      ReduceSumGradient);
  op.domain = kMicrosoft;
  op.inputs = {2, 2};
  return op;
}

}  // namespace

extern constexpr OpDef kReduceSum =
    ReduceOp("ReduceSum", Reduction<ReduceTypes, Summing>(), ReduceSumGradient);
extern constexpr OpDef kReduceSumTraining = ReduceSumTraining();
extern constexpr OpDef kReduceMean = ReduceOp(
    "ReduceMean", Reduction<ReduceTypes, Averaging>(), ReduceMeanGradient);
extern constexpr OpDef kReduceProd = ReduceOp(
    "ReduceProd", Reduction<ReduceTypes, Multiplying>(), ReduceProdGradient);
extern constexpr OpDef kReduceMin = ReduceOp(
    "ReduceMin", Reduction<OrderedTypes, Minimum>(), ReduceExtremeGradient);
extern constexpr OpDef kReduceMax = ReduceOp(
    "ReduceMax", Reduction<OrderedTypes, Maximum>(), ReduceExtremeGradient);
extern constexpr OpDef kReduceL1 = ReduceOp(
    "ReduceL1", Reduction<ReduceTypes, SummingMagnitudes>(), ReduceL1Gradient);
extern constexpr OpDef kReduceL2 = ReduceOp(
    "ReduceL2", Reduction<ReduceTypes, EuclideanNorm>(), ReduceL2Gradient);
extern constexpr OpDef kReduceSumSquare =
    ReduceOp("ReduceSumSquare", Reduction<ReduceTypes, SummingSquares>(),
             ReduceSumSquareGradient);
extern constexpr OpDef kReduceLogSum = ReduceOp(
    "ReduceLogSum", Reduction<ReduceTypes, LogOfSum>(), ReduceLogSumGradient);
extern constexpr OpDef kReduceLogSumExp =
    ReduceOp("ReduceLogSumExp", Reduction<ReduceTypes, LogOfSumOfExp>(),
             ReduceLogSumExpGradient);

}  // namespace strop::ops
