// SPDX-License-Identifier: Apache-2.0
//
// The Reduce ops: data, axes (optional) -> reduced. Over nothing, a sum is 0
// and a product 1; a mean, a minimum and a maximum of floats are NaN, +inf
// and -inf.
#include <cmath>
#include <limits>

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
constexpr OpDef ReduceOp(std::string_view name, ReferenceKernel kernel) {
  return {.name = name,
          .inputs = {1, 2},
          .infer = InferReduce,
          .reference = kernel,
          .value_inputs = {1},
          .stops_gradient = {1}};
}

constexpr OpDef ReduceSumTraining() {
  OpDef op = ReduceOp("ReduceSumTraining", Reduction<ReduceTypes, Summing>());
  op.domain = kMicrosoft;
  op.inputs = {2, 2};
  return op;
}

}  // namespace

extern constexpr OpDef kReduceSum =
    ReduceOp("ReduceSum", Reduction<ReduceTypes, Summing>());
extern constexpr OpDef kReduceSumTraining = ReduceSumTraining();
extern constexpr OpDef kReduceMean =
    ReduceOp("ReduceMean", Reduction<ReduceTypes, Averaging>());
extern constexpr OpDef kReduceProd =
    ReduceOp("ReduceProd", Reduction<ReduceTypes, Multiplying>());
extern constexpr OpDef kReduceMin =
    ReduceOp("ReduceMin", Reduction<OrderedTypes, Minimum>());
extern constexpr OpDef kReduceMax =
    ReduceOp("ReduceMax", Reduction<OrderedTypes, Maximum>());
extern constexpr OpDef kReduceL1 =
    ReduceOp("ReduceL1", Reduction<ReduceTypes, SummingMagnitudes>());
extern constexpr OpDef kReduceL2 =
    ReduceOp("ReduceL2", Reduction<ReduceTypes, EuclideanNorm>());
extern constexpr OpDef kReduceSumSquare =
    ReduceOp("ReduceSumSquare", Reduction<ReduceTypes, SummingSquares>());
extern constexpr OpDef kReduceLogSum =
    ReduceOp("ReduceLogSum", Reduction<ReduceTypes, LogOfSum>());
extern constexpr OpDef kReduceLogSumExp =
    ReduceOp("ReduceLogSumExp", Reduction<ReduceTypes, LogOfSumOfExp>());

}  // namespace strop::ops
