// SPDX-License-Identifier: Apache-2.0
//
// Random choices with given probabilities.
#include <cmath>

#include "ops/number.h"
#include "ops/random/stream.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

void InferBernoulli(InferContext& c) {
  c.SetOutput(0, TypeAttribute(c.node(), "dtype", c.input(0).type),
              c.input(0).shape);
}

template <class T>
void Bernoulli(const KernelContext& c) {
  const RandomKey key = StreamOf(c);
  const T* p = c.in<T>(0).data();
  const Tensor& y = c.output(0);
  DispatchType(AllTypes{}, y.type(), [&]<class R>() {
    R* to = y.values<R>().data();
    const R zero = FromDouble<R>(0), one = FromDouble<R>(1);
    c.ParallelFor(y.element_count(), 40, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = UniformAt(key, i) < static_cast<double>(p[i]) ? one : zero;
      }
    });
  });
}

// scores (batch, classes) -> (batch, sample_size)
void InferMultinomial(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const int64_t samples = c.node().Int("sample_size", 1);
  if (x.rank() != 2) {
    Fail(c.node(), "wants a matrix, not the shape {}", x.ToString());
  }
  if (samples < 0) Fail(c.node(), "sample_size is {}", samples);
  const DataType type = TypeAttribute(c.node(), "dtype", DataType::kInt32);
  if (!IsIndexType(type)) {
    Fail(c.node(), "gives int32 or int64, not {}", DataTypeName(type));
  }
  c.SetOutput(0, type, {x[0], samples});
}

// sums[k] = exp(x[0] - max) + ... + exp(x[k] - max)
template <class T>
void RunningSums(const OpNode& node, std::span<const T> x,
                 std::span<double> sums) {
  T largest = -std::numeric_limits<T>::infinity();
  for (const T value : x) largest = std::max(largest, value);
  double sum = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    sum += std::exp(static_cast<double>(x[k]) - static_cast<double>(largest));
    sums[k] = sum;
  }
  if (!(sum > 0)) Fail(node, "a row of scores gives no class a probability");
}

template <class T>
void Multinomial(const KernelContext& c) {
  const RandomKey key = StreamOf(c);
  const Tensor& y = c.output(0);
  const int64_t samples = y.shape()[1];
  const auto classes = static_cast<size_t>(c.input(0).shape()[1]);
  const std::span<double> sums(reinterpret_cast<double*>(c.scratch()), classes);
  for (int64_t i = 0; i < y.element_count(); ++i) {
    if (i % samples == 0) {
      const size_t row = static_cast<size_t>(i / samples);
      RunningSums<T>(c.node(), c.in<T>(0).subspan(row * classes, classes),
                     sums);
    }
    // The first class whose running sum is above a number in [0, total): it
    // has a probability. Rounding may give the total itself: then it is the
    // last class that has one.
    const double at = UniformAt(key, i) * sums.back();
    const int64_t drawn =
        std::min(std::upper_bound(sums.begin(), sums.end(), at),
                 std::lower_bound(sums.begin(), sums.end(), sums.back())) -
        sums.begin();
    if (y.type() == DataType::kInt32) {
      y.values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(drawn);
    } else {
      y.values<int64_t>()[static_cast<size_t>(i)] = drawn;
    }
  }
}

}  // namespace

// 1 with the probability that the input gives, else 0.
extern constexpr OpDef kBernoulli = {
    .name = "Bernoulli",
    .infer = InferBernoulli,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Bernoulli<T>(c); }),
    .stops_gradient = {0},
    .is_random = true};

// Classes drawn with probabilities exp(scores) over their sum.
extern constexpr OpDef kMultinomial = {
    .name = "Multinomial",
    .infer = InferMultinomial,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Multinomial<T>(c); },
        [](const KernelRequest& request) {
          const Shape& x = request.inputs[0].info.shape;
          return x[0] == 0 ? 0 : static_cast<size_t>(x[1]) * sizeof(double);
        }),
    .stops_gradient = {0},
    .is_random = true};

}  // namespace strop::ops
