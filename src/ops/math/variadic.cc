// SPDX-License-Identifier: Apache-2.0
//
// Ops over any number of inputs, with broadcasting.
#include <cmath>

#include "ops/elementwise.h"

namespace strop::ops {

// NaN wins over any number.
template <class T>
T Smaller(T a, T b) {
  return b < a || b != b ? b : a;
}
template <class T>
T Larger(T a, T b) {
  return b > a || b != b ? b : a;
}

// Input 0 and 1 may be overwritten, not later ones: they are read after the
// output has been written once.
extern constexpr OpDef kSum = {
    .name = "Sum",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Variadic<Floats>([](auto a, auto b) { return a + b; }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

extern constexpr OpDef kMin = {
    .name = "Min",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference =
        Variadic<Numbers>([](auto a, auto b) { return Smaller(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

extern constexpr OpDef kMax = {
    .name = "Max",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Variadic<Numbers>([](auto a, auto b) { return Larger(a, b); }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

extern constexpr OpDef kMean = {
    .name = "Mean",
    .inputs = {1, Arity::kVariadic},
    .infer = BroadcastInputs,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      Variadic<TypeList<T>>([](auto a, auto b) { return a + b; }).run(c);
      const T scale = T{1} / static_cast<T>(c.input_count());
      T* y = c.out<T>(0).data();
      c.ParallelFor(c.output(0).element_count(), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) y[i] *= scale;
                    });
    }),
    .may_overwrite = {0, 1},
    .keeps_zero = true,
    .cheap = true};

}  // namespace strop::ops
