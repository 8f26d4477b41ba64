// SPDX-License-Identifier: Apache-2.0
//
// Reductions over any set of axes, made from an accumulator:
//
//   template <class T>
//   struct Summing {
//     void Add(T x) { sum += x; }
//     T Result(int64_t count) const { return static_cast<T>(sum); }
//     Wide<T> sum = 0;
//   };
#pragma once

#include <array>

#include "ops/op_util.h"

namespace strop::ops {

// Float sums run in double: the order of a long sum then hardly matters.
// Integers wrap around in their own width.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, Wrapping<T>, double>;

// The axes that a Reduce node reduces: input 1 where there is one; without
// axes all, or none with noop_with_empty_axes.
AxisSet ReducedAxes(const OpNode& node, const Tensor* axes, size_t rank);

// `shape` without the axes that are reduced, or with 1 for them.
Shape ReducedShape(const Shape& shape, const AxisSet& reduced, bool keep);

// Shape inference of the Reduce ops.
void InferReduce(InferContext& c);

// How to walk a reduction: adjacent axes of one kind are merged.
struct ReduceWalk {
  ReduceWalk(const Shape& shape, const AxisSet& reduced);

  size_t kept_rank = 0, reduced_rank = 0;
  Dims kept_dims = {}, kept_strides = {};        // outermost first
  Dims reduced_dims = {}, reduced_strides = {};  // outermost first
  int64_t output_count = 1, reduced_count = 1;

  // Where output i starts; where element i of a sum lies from there.
  int64_t KeptOffset(int64_t i) const {
    return OffsetAt(i, kept_dims, kept_strides, kept_rank);
  }
  int64_t ReducedOffset(int64_t i) const {
    return OffsetAt(i, reduced_dims, reduced_strides, reduced_rank);
  }

 private:
  static int64_t OffsetAt(int64_t i, const Dims& dims, const Dims& strides,
                          size_t rank) {
    int64_t offset = 0;
    for (size_t axis = rank; axis-- > 0;) {
      offset += i % dims[axis] * strides[axis];
      i /= dims[axis];
    }
    return offset;
  }
};

// y = reduced x, or y plus that.
template <template <class> class Accumulator, class T>
void Reduce(const KernelContext& c, const AxisSet& reduced, const T* x, T* y,
            const Shape& shape, bool accumulate = false) {
  const ReduceWalk walk(shape, reduced);
  // Outputs whose inputs lie side by side are reduced together, at most
  // kTogether at a time: sums over rows of a matrix then read whole lines.
  constexpr int64_t kTogether = 64;
  const bool side_by_side =
      walk.kept_rank > 0 && walk.kept_strides[walk.kept_rank - 1] == 1;
  const int64_t width = side_by_side ? walk.kept_dims[walk.kept_rank - 1] : 1;
  if (walk.output_count == 0) return;
  const int64_t blocks_in_row = (width + kTogether - 1) / kTogether;
  const int64_t blocks = walk.output_count / width * blocks_in_row;
  const size_t outer_rank = walk.kept_rank - (side_by_side ? 1 : 0);

  const auto reduce_block = [&](int64_t block) {
    int64_t rest = block / blocks_in_row;
    const int64_t first = block % blocks_in_row * kTogether;
    const int64_t count = std::min(kTogether, width - first);
    T* out = y + rest * width + first;
    int64_t offset = first;
    for (size_t axis = outer_rank; axis-- > 0;) {
      offset += rest % walk.kept_dims[axis] * walk.kept_strides[axis];
      rest /= walk.kept_dims[axis];
    }
    std::array<Accumulator<T>, kTogether> sums = {};
    Dims at = {};
    const size_t inner = walk.reduced_rank > 0 ? walk.reduced_rank - 1 : 0;
    const int64_t run = walk.reduced_rank > 0 ? walk.reduced_dims[inner] : 1;
    const int64_t step =
        walk.reduced_rank > 0 ? walk.reduced_strides[inner] : 0;
    for (int64_t done = 0; done < walk.reduced_count; done += run) {
      const T* p = x + offset;
      if (count == 1) {
        Accumulator<T> sum = sums[0];
        for (int64_t i = 0; i < run; ++i) sum.Add(p[i * step]);
        sums[0] = sum;
      } else {
        for (int64_t i = 0; i < run; ++i) {
          for (int64_t j = 0; j < count; ++j) sums[j].Add(p[i * step + j]);
        }
      }
      for (size_t axis = inner; axis-- > 0;) {
        offset += walk.reduced_strides[axis];
        if (++at[axis] < walk.reduced_dims[axis]) break;
        offset -= at[axis] * walk.reduced_strides[axis];
        at[axis] = 0;
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      const T result = sums[j].Result(walk.reduced_count);
      out[j] = accumulate ? Plus(out[j], result) : result;
    }
  };
  const double cost = 1.0 * static_cast<double>(walk.reduced_count) *
                      static_cast<double>(std::min(width, kTogether));
  c.ParallelFor(blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) reduce_block(block);
  });
}

// The kernel of a Reduce op: data, axes (optional).
template <class List, template <class> class Accumulator>
constexpr ReferenceKernel Reduction() {
  return Instantiate<List>([]<class T>(const KernelContext& c) {
    const Tensor* axes = c.has_input(1) ? &c.input(1) : nullptr;
    const Tensor& x = c.input(0);
    Reduce<Accumulator, T>(c, ReducedAxes(c.node(), axes, x.shape().rank()),
                           c.in<T>(0).data(), c.out<T>(0).data(), x.shape());
  });
}

}  // namespace strop::ops
