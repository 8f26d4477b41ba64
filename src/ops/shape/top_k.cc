// SPDX-License-Identifier: Apache-2.0
//
// TopK, ArgMax and ArgMin. Among equal elements the first wins.
#include "ops/op_util.h"

namespace strop::ops {
namespace {

// The tensor as (outer, size, inner), `size` along attribute axis.
struct AxisSizes {
  size_t axis;
  int64_t outer, size, inner;
};

AxisSizes ReadAxis(const OpNode& node, const Shape& x, int64_t fallback) {
  const size_t axis = NormalizeAxis(node, node.Int("axis", fallback), x.rank());
  return {axis, x.element_count(0, axis), x[axis],
          x.element_count(axis + 1, x.rank())};
}

void InferTopK(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const AxisSizes s = ReadAxis(c.node(), x.shape, -1);
  RequireOneElement(c, 1);
  const int64_t k = c.IntValues(1)[0];
  if (k < 0 || k > s.size) {
    Fail(c.node(), "cannot pick {} of {} elements", k, s.size);
  }
  std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
  dims[s.axis] = k;
  c.SetOutput(0, x.type, Shape(dims));
  c.SetOutput(1, DataType::kInt64, Shape(dims));
}

// Keeps the best elements so far in order, each inserted where it belongs.
template <class T>
void TopK(const KernelContext& c) {
  const AxisSizes s = ReadAxis(c.node(), c.input(0).shape(), -1);
  const int64_t k = c.output(0).shape()[s.axis];
  const bool largest = c.node().Int("largest", 1) != 0;
  const T* x = c.in<T>(0).data();
  T* values = c.out<T>(0).data();
  int64_t* indices = c.has_output(1) ? c.out<int64_t>(1).data() : nullptr;
  const auto pick = [&](int64_t line) {
    const int64_t outer = line / s.inner, inner = line % s.inner;
    const T* from = x + outer * s.size * s.inner + inner;
    const int64_t first = outer * k * s.inner + inner;
    for (int64_t i = 0; i < s.size; ++i) {
      const T value = from[i * s.inner];
      int64_t place = std::min(i, k);
      while (place > 0) {
        const T before = values[first + (place - 1) * s.inner];
        if (!(largest ? value > before : value < before)) break;
        --place;
      }
      if (place == k) continue;
      for (int64_t j = std::min(i, k - 1); j > place; --j) {
        const int64_t to = first + j * s.inner;
        values[to] = values[to - s.inner];
        if (indices) indices[to] = indices[to - s.inner];
      }
      values[first + place * s.inner] = value;
      if (indices) indices[first + place * s.inner] = i;
    }
  };
  c.ParallelFor(k == 0 ? 0 : s.outer * s.inner,
                2.0 * static_cast<double>(s.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) pick(i);
                });
}

void InferArg(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const AxisSizes s = ReadAxis(c.node(), x, 0);
  std::vector<int64_t> dims(x.begin(), x.end());
  if (c.node().Int("keepdims", 1) != 0) {
    dims[s.axis] = 1;
  } else {
    dims.erase(dims.begin() + static_cast<int64_t>(s.axis));
  }
  if (s.size == 0 && s.outer * s.inner != 0) {
    Fail(c.node(), "axis {} of {} is empty", s.axis, x.ToString());
  }
  c.SetOutput(0, DataType::kInt64, Shape(dims));
}

template <class T, bool largest>
void ArgBest(const KernelContext& c) {
  const AxisSizes s = ReadAxis(c.node(), c.input(0).shape(), 0);
  const bool last = c.node().Int("select_last_index", 0) != 0;
  const T* x = c.in<T>(0).data();
  int64_t* y = c.out<int64_t>(0).data();
  c.ParallelFor(s.outer * s.inner, static_cast<double>(s.size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t line = begin; line < end; ++line) {
                    const T* from =
                        x + line / s.inner * s.size * s.inner + line % s.inner;
                    int64_t best = 0;
                    for (int64_t i = 1; i < s.size; ++i) {
                      const T value = from[i * s.inner],
                              old = from[best * s.inner];
                      const bool better = largest ? value > old : value < old;
                      if (better || (last && value == old)) best = i;
                    }
                    y[line] = best;
                  }
                });
}

}  // namespace

// x, k -> the k largest (or smallest) along the axis, best first, and their
// indices.
extern constexpr OpDef kTopK = {
    .name = "TopK",
    .inputs = {2, 2},
    .outputs = {1, 2},
    .infer = InferTopK,
    .reference = Instantiate<Numbers>(
        []<class T>(const KernelContext& c) { TopK<T>(c); }),
    .value_inputs = {1},
    .stops_gradient = {1}};

extern constexpr OpDef kArgMax = {
    .name = "ArgMax",
    .infer = InferArg,
    .reference = Instantiate<Numbers>(
        []<class T>(const KernelContext& c) { ArgBest<T, true>(c); }),
    .stops_gradient = {0}};

extern constexpr OpDef kArgMin = {
    .name = "ArgMin",
    .infer = InferArg,
    .reference = Instantiate<Numbers>(
        []<class T>(const KernelContext& c) { ArgBest<T, false>(c); }),
    .stops_gradient = {0}};

}  // namespace strop::ops
