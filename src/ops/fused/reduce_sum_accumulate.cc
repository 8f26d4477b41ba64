// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

namespace strop::ops {
namespace {

// X, axes, buffer, overwrite
void InferAccumulate(InferContext& c) {
  RequireSameType(c, 0, 2);
  RequireIndices(c, 1);
  const Shape& x = c.input(0).shape;
  const AxisSet reduced = ReducedAxes(c.node(), &c.value(1), x.rank());
  if (c.input(2).shape.element_count() != ReduceWalk(x, reduced).output_count) {
    Fail(c.node(), "the buffer {} does not hold the sums of {}",
         c.input(2).shape.ToString(), x.ToString());
  }
  RequireType(c, 3, DataType::kBool);
  RequireOneElement(c, 3);
  c.SetOutput(0, c.input(2).type, c.input(2).shape);
}

template <class T>
struct Summing {
  void Add(T x) { sum += static_cast<double>(x); }
  T Result(int64_t) const { return static_cast<T>(sum); }
  double sum = 0;
};

}  // namespace

// buffer (+)= sum of X over the axes
extern constexpr OpDef kInternalReduceSumAccumulate = {
    .name = "ReduceSumAccumulate",
    .domain = kInternal,
    .inputs = {4, 4},
    .outputs = {0, 1},
    .infer = InferAccumulate,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      const Shape& x = c.input(0).shape();
      const AxisSet reduced = ReducedAxes(c.node(), &c.input(1), x.rank());
      Reduce<Summing, T>(c, reduced, c.in<T>(0).data(),
                         c.input(2).values<T>().data(), x,
                         /*accumulate=*/!c.scalar<bool>(3));
    }),
    .value_inputs = {1},
    .aliases = {{0, 2}},
    .mutates = {2}};

}  // namespace strop::ops
