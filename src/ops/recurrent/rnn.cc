// SPDX-License-Identifier: Apache-2.0
//
// RNN: h = f(W x + R h + biases), in each step.
#include "ops/gradient.h"
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

// --- Backward

// X, W, R, lengths, first h, h of all steps, gradients of h of all steps and
// of the last h
enum Slot : size_t { kX, kW, kR, kLengths, kFirst, kAll, kDAll, kDLast };

// -> dX, dW, dR, dbias, gradient of the first h
void InferRnnGrad(InferContext& c) {
  const Settings s = InferSettings(c, kRnn);
  RequireSlopes(c.node(), kRnn, s);
  CheckLengthsInput(c, kLengths, s);
  CheckOptional(c, kFirst, s.StateShape());
  RequireSteps(c, kAll, s, s.hidden);
  CheckOptional(c, kDAll, s.StepsShape(s.hidden));
  CheckOptional(c, kDLast, s.StateShape());
  SetGradients(c, s);
}

// The gradients of the sums of all steps; then, of each sequence, that of h.
size_t ScratchOfRnnGrad(const KernelRequest& request) {
  return BackwardScratch(request, kRnn, /*states=*/1);
}

// Walks back through time: fills `a` and the gradient of the first state.
template <class T>
void WalkBack(const KernelContext& c, const Settings& s, const Lengths& lengths,
              const Rows<T>& a, T* states) {
  const int64_t n = s.hidden;
  const auto all = StepRows(s, n, c.in<T>(kAll).data());
  const auto d_all = StepRows(s, n, OptionalIn<T>(c, kDAll));
  const auto d_last = StateRows(s, OptionalIn<T>(c, kDLast));
  const auto d_first = StateRows(s, OptionalOut<T>(c, 4));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Activation& f = s.functions[d][0];
    const T* r = c.in<T>(kR).data() + d * n * n;
    T* dh = states + (d * s.batch + b) * n;
    const int64_t length = lengths[b];
    StartGradient(length, d_last, d, b, n, dh);
    for (int64_t k = length; k-- > 0;) {
      const int64_t t = StepAt(s, d, length, k);
      if (d_all) AddScaled(T{1}, d_all.at(t, d, b), n, dh);
      const T* h = all.at(t, d, b);
      T* sums = a.at(t, d, b);
      for (int64_t j = 0; j < n; ++j)
        sums[j] = dh[j] * ClippedSlope(s, f, h[j]);
      std::fill_n(dh, n, T{0});
      AddTransposed(r, n, n, sums, dh);
    }
    ClearPadding(s, a, n, d, b, length);
    if (d_first) std::copy_n(dh, n, d_first.at(d, b));
  });
}

template <class T>
void RnnGrad(const KernelContext& c) {
  RunBackward<T>(
      c, kRnn, kLengths,
      [&](const Settings& s, const Lengths& lengths, const Rows<T>& a,
          T* states) { WalkBack(c, s, lengths, a, states); },
      [&](const Settings& s, const Lengths& lengths, const Rows<const T>& a) {
        WeightGradients(c, s, lengths, a, kFirst, kAll);
      });
}

// --- Gradients

void RnnGradient(GradientContext& c) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  const Var states = c.AddedOutput(0, "all_hidden_states", type);
  const auto optional = [&](size_t i) {
    return c.has_input(i) ? c.x(i) : Var{};
  };
  const Var inputs[] = {c.x(0),      c.x(1), c.x(2),  optional(4),
                        optional(5), states, c.dy(0), c.dy(1)};
  constexpr size_t kSlots[] = {0, 1, 2, 3, 5};
  DataType types[std::size(kSlots)];
  for (size_t i = 0; i < std::size(kSlots); ++i)
    types[i] = c.needs(kSlots[i]) ? type : DataType::kUndefined;
  const auto gradients =
      b.Ops("RNNGrad", inputs, types, c.attributes(), kStrop);
  for (size_t i = 0; i < std::size(kSlots); ++i) c.Set(kSlots[i], gradients[i]);
}

}  // namespace

extern constexpr OpDef kRNN = ForwardOp(
    "RNN", "", 6, 2, InferRnn,
    Instantiate<Floats>([]<class T>(const KernelContext& c) { Rnn<T>(c); },
                        ScratchOfRnn),
    RnnGradient);

namespace {

constexpr OpDef RnnGradOp() {
  OpDef op =
      GradientOp("RNNGrad", 8, 5, InferRnnGrad,
                 Instantiate<Floats>(
                     []<class T>(const KernelContext& c) { RnnGrad<T>(c); },
                     ScratchOfRnnGrad));
  op.domain = kStrop;
  return op;
}

}  // namespace

// X, W, R, lengths, first h, h of all steps, gradients of h of all steps and
// of the last h -> dX, dW, dR, dbias, gradient of the first h; with the
// attributes of RNN
extern constexpr OpDef kRNNGrad = RnnGradOp();

}  // namespace strop::ops
