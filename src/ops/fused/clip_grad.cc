// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

namespace strop::ops {
namespace {

// dY, X, low (optional), high (optional)
void InferClipGrad(InferContext& c) {
  RequireSame(c, 0, 1);
  for (size_t i = 2; i < 4; ++i) {
    if (!c.has_input(i)) continue;
    RequireSameType(c, 0, i);
    RequireOneElement(c, i);
  }
  SameAsInput(c);
}

template <class T>
void ClipGrad(const KernelContext& c) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T low = c.has_input(2) ? c.scalar<T>(2) : -kInfinity;
  const T high = c.has_input(3) ? c.scalar<T>(3) : kInfinity;
  const T* dy = c.in<T>(0).data();
  const T* x = c.in<T>(1).data();
  T* dx = c.out<T>(0).data();
  c.ParallelFor(c.output(0).element_count(), 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    dx[i] = x[i] < low || x[i] > high ? T{0} : dy[i];
                  }
                });
}

}  // namespace

// The gradient of Clip along x. Bounds are inclusive; a NaN lets dY through.
extern constexpr OpDef kInternalClipGrad = {
    .name = "ClipGrad",
    .domain = kInternal,
    .inputs = {2, 4},
    .infer = InferClipGrad,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { ClipGrad<T>(c); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

}  // namespace strop::ops
