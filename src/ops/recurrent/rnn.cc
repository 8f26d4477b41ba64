// SPDX-License-Identifier: Apache-2.0
//
// RNN: h = f(W x + R h + biases), in each step.
#include "ops/recurrent/recurrent.h"

namespace strop::ops {
namespace {

using namespace recurrent;

// X, W, R, bias, lengths, first h -> h of all steps, last h
void InferRnn(InferContext& c) {
  const Settings s = InferSettings(c, kRnn);
  CheckOptional(c, 3, {s.directions, 2 * s.hidden});
  CheckLengthsInput(c, 4, s);
  CheckOptional(c, 5, s.StateShape());
  c.SetOutput(0, c.input(0).type, s.StepsShape(s.hidden));
  c.SetOutput(1, c.input(0).type, s.StateShape());
}

// Of each sequence: the sums of a step, and h.
size_t ScratchOfRnn(const KernelRequest& request) {
  const Settings s = ReadSettings(request, kRnn);
  return ScratchBytes(request, s.StateShape().element_count() * 2);
}

template <class T>
void Rnn(const KernelContext& c) {
  const Settings s = ReadSettings(c, kRnn);
  const Lengths lengths(c, 4, s);
  const int64_t n = s.hidden;
  const auto x = InputRows(s, c.in<T>(0).data());
  const auto first = StateRows(s, OptionalIn<T>(c, 5));
  const auto all = StepRows(s, n, OptionalOut<T>(c, 0));
  const auto last = StateRows(s, OptionalOut<T>(c, 1));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Activation& f = s.functions[d][0];
    const T* w = c.in<T>(1).data() + d * n * s.input;
    const T* r = c.in<T>(2).data() + d * n * n;
    const T* bias = OfDirection<T>(c, 3, d, 2 * n);
    T* sums = reinterpret_cast<T*>(c.scratch()) + (d * s.batch + b) * 2 * n;
    T* h = sums + n;
    CopyOrClear(first ? first.at(d, b) : nullptr, n, h);
    const int64_t length = lengths[b];
    for (int64_t k = 0; k < length; ++k) {
      const int64_t t = StepAt(s, d, length, k);
      StartGates(s, w, bias, x.at(t, 0, b), n, sums);
      AddProduct(r, n, n, h, sums);
      for (int64_t j = 0; j < n; ++j) h[j] = f(Clip(s, sums[j]));
      if (all) std::copy_n(h, n, all.at(t, d, b));
    }
    FinishState(length, h, n, last, d, b);
    ClearPadding(s, all, n, d, b, length);
  });
}

}  // namespace

extern constexpr OpDef kRNN = ForwardOp(
    "RNN", "", 6, 2, InferRnn,
    Instantiate<Floats>([]<class T>(const KernelContext& c) { Rnn<T>(c); },
                        ScratchOfRnn));

}  // namespace strop::ops
