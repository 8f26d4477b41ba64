// SPDX-License-Identifier: Apache-2.0
//
// Tensors of random numbers. Attributes: dtype, seed (optional), the shape
// or an input that has it, and what the distribution needs.
#include <cmath>

#include "ops/number.h"
#include "ops/random/stream.h"

namespace strop::ops {
namespace {

using RandomTypes = TypeList<float, double, Float16, Bfloat16>;

void SetRandomOutput(InferContext& c, DataType fallback, const Shape& shape) {
  const DataType type = TypeAttribute(c.node(), "dtype", fallback);
  if (!DispatchType(RandomTypes{}, type, []<class T>() {})) {
    Fail(c.node(), "gives floating-point numbers, not {}", DataTypeName(type));
  }
  c.SetOutput(0, type, shape);
}

struct Normal {
  explicit Normal(const OpNode& node)
      : mean(static_cast<double>(node.Float("mean", 0))),
        scale(static_cast<double>(node.Float("scale", 1))) {}
  template <class T>
  T At(const RandomKey& key, int64_t i) const {
    return FromDouble<T>(mean + scale * NormalAt(key, i));
  }
  double mean, scale;
};

// In [low, high): a number that rounding made `high` becomes `low`.
struct Uniform {
  explicit Uniform(const OpNode& node)
      : low(static_cast<double>(node.Float("low", 0))),
        high(static_cast<double>(node.Float("high", 1))) {
    if (!(low <= high)) Fail(node, "low is {}, high is {}", low, high);
  }
  template <class T>
  T At(const RandomKey& key, int64_t i) const {
    const T x = FromDouble<T>(low + (high - low) * UniformAt(key, i));
    return ToDouble(x) < high ? x : FromDouble<T>(low);
  }
  double low, high;
};

template <class Distribution>
void InferFill(InferContext& c) {
  Distribution{c.node()};
  if (!c.node().Has("shape")) Fail(c.node(), "has no attribute shape");
  SetRandomOutput(c, DataType::kFloat32, Shape(c.node().Ints("shape")));
}

template <class Distribution>
void InferFillLike(InferContext& c) {
  Distribution{c.node()};
  SetRandomOutput(c, c.input(0).type, c.input(0).shape);
}

template <class Distribution>
constexpr ReferenceKernel FillKernel() {
  return Instantiate<RandomTypes, -1>([]<class T>(const KernelContext& c) {
    const Distribution distribution(c.node());
    const RandomKey key = StreamOf(c);
    T* y = c.out<T>(0).data();
    c.ParallelFor(c.output(0).element_count(), 60,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      y[i] = distribution.template At<T>(key, i);
                    }
                  });
  });
}

template <class Distribution>
constexpr OpDef FillOp(std::string_view name) {
  return {.name = name,
          .inputs = {0, 0},
          .infer = InferFill<Distribution>,
          .reference = FillKernel<Distribution>(),
          .is_random = true};
}

template <class Distribution>
constexpr OpDef FillLikeOp(std::string_view name) {
  return {.name = name,
          .infer = InferFillLike<Distribution>,
          .reference = FillKernel<Distribution>(),
          .shape_inputs = {0},
          .stops_gradient = {0},
          .is_random = true};
}

}  // namespace

extern constexpr OpDef kRandomNormal = FillOp<Normal>("RandomNormal");
extern constexpr OpDef kRandomUniform = FillOp<Uniform>("RandomUniform");
extern constexpr OpDef kRandomNormalLike =
    FillLikeOp<Normal>("RandomNormalLike");
extern constexpr OpDef kRandomUniformLike =
    FillLikeOp<Uniform>("RandomUniformLike");

}  // namespace strop::ops
