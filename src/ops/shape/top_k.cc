// SPDX-License-Identifier: Apache-2.0
//
// TopK, ArgMax and ArgMin. Among equal elements the first wins. NaN wins in
// ArgMax and ArgMin, as in numpy.
#include <cmath>

#include "ops/axis.h"
#include "ops/gradient.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

size_t AxisOf(const OpNode& node, const Shape& x, int64_t fallback) {
  return NormalizeAxis(node, node.Int("axis", fallback), x.rank());
}

void InferTopK(InferContext& c) {
  const TensorInfo& x = c.input(0);
  const size_t axis = AxisOf(c.node(), x.shape, -1);
  RequireOneElement(c, 1);
  const int64_t k = c.IntValues(1)[0];
  if (k < 0 || k > x.shape[axis]) {
    Fail(c.node(), "cannot pick {} of {} elements", k, x.shape[axis]);
  }
  std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
  dims[axis] = k;
  c.SetOutput(0, x.type, Shape(dims));
  c.SetOutput(1, DataType::kInt64, Shape(dims));
}

// Indices of the best elements so far for each line.
size_t TopKScratch(const KernelRequest& request) {
  return static_cast<size_t>(request.outputs[0].shape.element_count()) *
         sizeof(int64_t);
}

// A heap of the best elements so far, the worst of them on top: the next
// element takes its place or is worse than all. NaN is above all numbers.
template <class T>
void TopK(const KernelContext& c) {
  const size_t axis = AxisOf(c.node(), c.input(0).shape(), -1);
  const AxisSizes s = SizesAlong(c.input(0).shape(), axis);
  const int64_t k = c.output(0).shape()[axis];
  const bool largest = c.node().Int("largest", 1) != 0;
  const T* x = c.in<T>(0).data();
  T* values = c.out<T>(0).data();
  int64_t* indices = c.has_output(1) ? c.out<int64_t>(1).data() : nullptr;
  auto* heaps = reinterpret_cast<int64_t*>(c.scratch());
  const auto pick = [&](int64_t line) {
    const int64_t outer = line / s.inner, inner = line % s.inner;
    const T* from = x + s.Start(line);
    int64_t* heap = heaps + line * k;
    const auto is_better = [&](int64_t i, int64_t j) {
      const T a = from[i * s.inner], b = from[j * s.inner];
      const bool a_above = a > b || (a != a && b == b);
      const bool b_above = b > a || (b != b && a == a);
      if (a_above || b_above) return a_above == largest;
      return i < j;
    };
    for (int64_t i = 0; i < k; ++i) heap[i] = i;
    std::make_heap(heap, heap + k, is_better);
    for (int64_t i = k; i < s.size; ++i) {
      if (!is_better(i, heap[0])) continue;
      std::pop_heap(heap, heap + k, is_better);
      heap[k - 1] = i;
      std::push_heap(heap, heap + k, is_better);
    }
    std::sort_heap(heap, heap + k, is_better);
    const int64_t first = outer * k * s.inner + inner;
    for (int64_t i = 0; i < k; ++i) {
      values[first + i * s.inner] = from[heap[i] * s.inner];
      if (indices) indices[first + i * s.inner] = heap[i];
    }
  };
  const double steps = std::log2(static_cast<double>(k) + 2);
  c.ParallelFor(k == 0 ? 0 : s.lines(),
                2.0 * static_cast<double>(s.size) * steps,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) pick(i);
                });
}

void InferArg(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const size_t axis = AxisOf(c.node(), x, 0);
  const AxisSizes s = SizesAlong(x, axis);
  std::vector<int64_t> dims(x.begin(), x.end());
  if (c.node().Int("keepdims", 1) != 0) {
    dims[axis] = 1;
  } else {
    dims.erase(dims.begin() + static_cast<int64_t>(axis));
  }
  if (s.size == 0 && s.lines() != 0) {
    Fail(c.node(), "axis {} of {} is empty", axis, x.ToString());
  }
  c.SetOutput(0, DataType::kInt64, Shape(dims));
}

template <class T, bool largest>
void ArgBest(const KernelContext& c) {
  const AxisSizes s = ReadAxis(c.node(), c.input(0).shape(), 0);
  const bool last = c.node().Int("select_last_index", 0) != 0;
  const T* x = c.in<T>(0).data();
  int64_t* y = c.out<int64_t>(0).data();
  c.ParallelFor(
      s.lines(), static_cast<double>(s.size), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const T* from = x + s.Start(line);
          int64_t best = 0;
          for (int64_t i = 1; i < s.size; ++i) {
            const T value = from[i * s.inner], old = from[best * s.inner];
            const bool is_first_nan = value != value && old == old;
            const bool better = largest ? value > old : value < old;
            if (better || is_first_nan || (last && value == old)) {
              best = i;
            }
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
        []<class T>(const KernelContext& c) { TopK<T>(c); }, TopKScratch),
    .value_inputs = {1},
    .gradient = Rule([](GradientContext& c) {
      GraphBuilder& b = c.build();
      const Var places = c.AddedOutput(1, "indices", DataType::kInt64);
      c.Set(0, b.MicrosoftOp("GatherElementsGrad",
                             {c.dy(), b.Shape(c.x()), places},
                             {{"axis", c.node().Int("axis", -1)}}));
    }),
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
