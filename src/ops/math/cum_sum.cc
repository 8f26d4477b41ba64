// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

namespace strop::ops {
namespace {

using SumTypes = TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>;

void InferCumSum(InferContext& c) {
  RequireIndices(c, 1);
  RequireOneElement(c, 1);
  SameAsInput(c);
}

template <class T>
void CumSum(const KernelContext& c) {
  const Shape& x = c.input(0).shape();
  const size_t axis = NormalizeAxis(c.node(), IndexAt(c.input(1), 0), x.rank());
  const bool exclusive = c.node().Int("exclusive", 0) != 0;
  const bool reverse = c.node().Int("reverse", 0) != 0;
  const int64_t size = x[axis];
  const int64_t inner = x.element_count(axis + 1, x.rank());
  const T* from = c.in<T>(0).data();
  T* to = c.out<T>(0).data();
  c.ParallelFor(
      x.element_count(0, axis) * inner, static_cast<double>(size),
      [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const int64_t first = line / inner * size * inner + line % inner;
          Wide<T> sum = 0;
          for (int64_t i = 0; i < size; ++i) {
            const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
            const Wide<T> value = static_cast<Wide<T>>(from[at]);
            if (!exclusive) sum += value;
            to[at] = static_cast<T>(sum);
            if (exclusive) sum += value;
          }
        }
      });
}

}  // namespace

// y[i] = x[0] + ... + x[i] along the axis in input 1; exclusive leaves x[i]
// out, reverse starts at the end.
extern constexpr OpDef kCumSum = {
    .name = "CumSum",
    .inputs = {2, 2},
    .infer = InferCumSum,
    .reference = Instantiate<SumTypes>(
        []<class T>(const KernelContext& c) { CumSum<T>(c); }),
    .may_overwrite = {0},
    .stops_gradient = {1}};

}  // namespace strop::ops
