// SPDX-License-Identifier: Apache-2.0
//
// LSTM, and the pair that a training graph holds in its place. In each step,
// with c and h of the step before and P the peepholes:
//
//   i = f(Wi x + Ri h + Pi c + biases)
//   o = f(Wo x + Ro h + Po c' + biases)    after c'
//   f = f(Wf x + Rf h + Pf c + biases)     or 1 - i with input_forget
//   g = g(Wc x + Rc h + biases)
//   c' = f c + i g
//   h' = o h(c')
//
// LSTMTraining also gives c and the gates of every step, in the order
// i, o, f, g and after their functions: all that LSTMGrad needs to know.
#include "ops/gradient.h"
#include "ops/recurrent/recurrent.h"

namespace strop::ops {
namespace {

using namespace recurrent;

// The gates of one step, one after another, or their gradients.
template <class T>
struct Gates {
  T *i, *o, *f, *g;
  Gates(T* gates, int64_t n)
      : i(gates), o(gates + n), f(gates + 2 * n), g(gates + 3 * n) {}
};

// What one direction needs to know in every step.
template <class T>
struct Cell {
  const Settings& s;
  const Activation &f, &g, &h;
  const T* p;  // peepholes of i, o, f; null: none
  bool coupled;

  Cell(const KernelContext& c, const Settings& settings, size_t peepholes,
       int64_t d)
      : s(settings),
        f(s.functions[d][0]),
        g(s.functions[d][1]),
        h(s.functions[d][2]),
        p(OfDirection<T>(c, peepholes, d, 3 * s.hidden)),
        coupled(c.node().Int("input_forget", 0) != 0) {}

  T PeepholeOfI(int64_t j) const { return At(p, j); }
  T PeepholeOfO(int64_t j) const { return p ? p[s.hidden + j] : T{0}; }
  T PeepholeOfF(int64_t j) const { return p ? p[2 * s.hidden + j] : T{0}; }
};

// `sums` holds W x + R h + biases and becomes the gates; c and h move on.
template <class T>
void Step(const Cell<T>& cell, T* sums, T* c, T* h) {
  const Settings& s = cell.s;
  const Gates<T> gates(sums, s.hidden);
  for (int64_t j = 0; j < s.hidden; ++j) {
    const T i = cell.f(Clip(s, gates.i[j] + cell.PeepholeOfI(j) * c[j]));
    const T f = cell.coupled
                    ? 1 - i
                    : cell.f(Clip(s, gates.f[j] + cell.PeepholeOfF(j) * c[j]));
    const T g = cell.g(Clip(s, gates.g[j]));
    c[j] = f * c[j] + i * g;
    const T o = cell.f(Clip(s, gates.o[j] + cell.PeepholeOfO(j) * c[j]));
    h[j] = o * cell.h(c[j]);
    gates.i[j] = i;
    gates.o[j] = o;
    gates.f[j] = f;
    gates.g[j] = g;
  }
}

// From the gradients of h' and c': `a`, the gradients of what enters the
// gates, and in place of dc the gradient of c. `before` is c, null for zeros.
template <class T>
void StepBack(const Cell<T>& cell, const T* values, const T* before,
              const T* after, const T* dh, T* dc, T* a) {
  const Settings& s = cell.s;
  const Gates<const T> gates(values, s.hidden);
  const Gates<T> grads(a, s.hidden);
  for (int64_t j = 0; j < s.hidden; ++j) {
    const T i = gates.i[j], o = gates.o[j], f = gates.f[j], g = gates.g[j];
    const T squashed = cell.h(after[j]);
    const T ao = dh[j] * squashed * ClippedSlope(s, cell.f, o);
    const T dc_after =
        dc[j] + dh[j] * o * cell.h.Slope(squashed) + ao * cell.PeepholeOfO(j);
    const T df = dc_after * At(before, j);
    // Coupled, f = 1 - i has no sums of its own.
    const T di = dc_after * g - (cell.coupled ? df : T{0});
    const T ai = di * ClippedSlope(s, cell.f, i);
    const T af = cell.coupled ? T{0} : df * ClippedSlope(s, cell.f, f);
    dc[j] = dc_after * f + ai * cell.PeepholeOfI(j) + af * cell.PeepholeOfF(j);
    grads.i[j] = ai;
    grads.o[j] = ao;
    grads.f[j] = af;
    grads.g[j] = dc_after * i * ClippedSlope(s, cell.g, g);
  }
}

// --- Forward

// X, W, R, bias, lengths, first h, first c, peepholes
Settings InferForward(const InferContext& c) {
  const Settings s = InferSettings(c, kLstm);
  CheckOptional(c, 3, {s.directions, 2 * s.gate_count()});
  CheckLengthsInput(c, 4, s);
  CheckOptional(c, 5, s.StateShape());
  CheckOptional(c, 6, s.StateShape());
  CheckOptional(c, 7, {s.directions, 3 * s.hidden});
  return s;
}

// -> h of all steps, last h, last c
void InferLstm(InferContext& c) {
  const Settings s = InferForward(c);
  const DataType type = c.input(0).type;
  c.SetOutput(0, type, s.StepsShape(s.hidden));
  c.SetOutput(1, type, s.StateShape());
  c.SetOutput(2, type, s.StateShape());
}

// -> the same, c of all steps, gates of all steps
void InferLstmTraining(InferContext& c) {
  InferLstm(c);
  const Settings s = InferForward(c);
  RequireSlopes(c.node(), kLstm, s);
  c.SetOutput(3, c.input(0).type, s.StepsShape(s.hidden));
  c.SetOutput(4, c.input(0).type, s.StepsShape(s.gate_count()));
}

// Of each sequence: the gates of a step, c and h.
constexpr int64_t kForwardStates = 6;
size_t ScratchOfForward(const KernelRequest& request) {
  const Settings s = ReadSettings(request, kLstm);
  return ScratchBytes(request, s.StateShape().element_count() * kForwardStates);
}

template <class T>
void Forward(const KernelContext& c) {
  const Settings s = ReadSettings(c, kLstm);
  const Lengths lengths(c, 4, s);
  const int64_t n = s.hidden, n4 = 4 * n;
  const auto x = InputRows(s, c.in<T>(0).data());
  const auto first_h = StateRows(s, OptionalIn<T>(c, 5));
  const auto first_c = StateRows(s, OptionalIn<T>(c, 6));
  const auto all_h = StepRows(s, n, OptionalOut<T>(c, 0));
  const auto last_h = StateRows(s, OptionalOut<T>(c, 1));
  const auto last_c = StateRows(s, OptionalOut<T>(c, 2));
  const auto all_c = StepRows(s, n, OptionalOut<T>(c, 3));
  const auto all_gates = StepRows(s, n4, OptionalOut<T>(c, 4));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Cell<T> cell(c, s, 7, d);
    const T* w = c.in<T>(1).data() + d * n4 * s.input;
    const T* r = c.in<T>(2).data() + d * n4 * n;
    const T* bias = OfDirection<T>(c, 3, d, 2 * n4);
    T* gates = reinterpret_cast<T*>(c.scratch()) +
               (d * s.batch + b) * n * kForwardStates;
    T *state_c = gates + n4, *state_h = state_c + n;
    CopyOrClear(first_h ? first_h.at(d, b) : nullptr, n, state_h);
    CopyOrClear(first_c ? first_c.at(d, b) : nullptr, n, state_c);
    const int64_t length = lengths[b];
    for (int64_t k = 0; k < length; ++k) {
      const int64_t t = StepAt(s, d, length, k);
      StartGates(s, w, bias, x.at(t, 0, b), n4, gates);
      AddProduct(r, n4, n, state_h, gates);
      Step(cell, gates, state_c, state_h);
      if (all_h) std::copy_n(state_h, n, all_h.at(t, d, b));
      if (all_c) std::copy_n(state_c, n, all_c.at(t, d, b));
      if (all_gates) std::copy_n(gates, n4, all_gates.at(t, d, b));
    }
    FinishState(length, state_h, n, last_h, d, b);
    FinishState(length, state_c, n, last_c, d, b);
    ClearPadding(s, all_h, n, d, b, length);
    ClearPadding(s, all_c, n, d, b, length);
    ClearPadding(s, all_gates, n4, d, b, length);
  });
}

// --- Backward

using namespace lstm_grad;

Settings InferBackward(const InferContext& c) {
  const Settings s = InferSettings(c, kLstm);
  RequireSlopes(c.node(), kLstm, s);
  CheckLengthsInput(c, kLengths, s);
  for (const Input i : {kFirstH, kFirstC, kDLastH, kDLastC}) {
    CheckOptional(c, i, s.StateShape());
  }
  RequireSteps(c, kAllH, s, s.hidden);
  RequireSteps(c, kAllC, s, s.hidden);
  RequireSteps(c, kGates, s, s.gate_count());
  CheckOptional(c, kDAllH, s.StepsShape(s.hidden));
  CheckOptional(c, kPeepholes, {s.directions, 3 * s.hidden});
  return s;
}

// -> dX, dW, dR, dbias, gradients of the first h and c, of the peepholes
void InferLstmGrad(InferContext& c) {
  const Settings s = InferBackward(c);
  const DataType type = c.input(0).type;
  SetGradients(c, s);
  c.SetOutput(5, type, s.StateShape());
  c.SetOutput(6, type, {s.directions, 3 * s.hidden});
}

// The gradients of what enters the gates in all steps; then, of each
// sequence, those of h and c.
size_t ScratchOfBackward(const KernelRequest& request) {
  return BackwardScratch(request, kLstm, /*states=*/2);
}

// Walks back through time: fills `a` and the gradients of the first states.
template <class T>
void WalkBack(const KernelContext& c, const Settings& s, const Lengths& lengths,
              const Rows<T>& a, T* states) {
  const int64_t n = s.hidden, n4 = 4 * n;
  const auto first_c = StateRows(s, OptionalIn<T>(c, kFirstC));
  const auto all_c = StepRows(s, n, c.in<T>(kAllC).data());
  const auto gates = StepRows(s, n4, c.in<T>(kGates).data());
  const auto d_all_h = StepRows(s, n, OptionalIn<T>(c, kDAllH));
  const auto d_last_h = StateRows(s, OptionalIn<T>(c, kDLastH));
  const auto d_last_c = StateRows(s, OptionalIn<T>(c, kDLastC));
  const auto d_first_h = StateRows(s, OptionalOut<T>(c, 4));
  const auto d_first_c = StateRows(s, OptionalOut<T>(c, 5));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Cell<T> cell(c, s, kPeepholes, d);
    const T* r = c.in<T>(kR).data() + d * n4 * n;
    T* dh = states + (d * s.batch + b) * 2 * n;
    T* dc = dh + n;
    const int64_t length = lengths[b];
    StartGradient(length, d_last_h, d, b, n, dh);
    StartGradient(length, d_last_c, d, b, n, dc);
    for (int64_t k = length; k-- > 0;) {
      const int64_t t = StepAt(s, d, length, k);
      if (d_all_h) AddScaled(T{1}, d_all_h.at(t, d, b), n, dh);
      T* step = a.at(t, d, b);
      StepBack(cell, gates.at(t, d, b),
               Before(s, all_c, first_c, d, b, length, k), all_c.at(t, d, b),
               dh, dc, step);
      std::fill_n(dh, n, T{0});
      AddTransposed(r, n4, n, step, dh);
    }
    ClearPadding(s, a, n4, d, b, length);
    if (d_first_h) std::copy_n(dh, n, d_first_h.at(d, b));
    if (d_first_c) std::copy_n(dc, n, d_first_c.at(d, b));
  });
}

// i and f look at c before the step, o at c after it.
template <class T>
void PeepholeGradient(const KernelContext& c, const Settings& s,
                      const Lengths& lengths, const Rows<const T>& a, T* dp) {
  const int64_t n = s.hidden;
  const auto first_c = StateRows(s, OptionalIn<T>(c, kFirstC));
  const auto all_c = StepRows(s, n, c.in<T>(kAllC).data());
  ForEachWeightRow(c, s, [&](int64_t d, int64_t row) {
    if (row >= 3 * n) return;
    const bool is_o = row / n == 1;
    double sum = 0;
    ForEachStep(
        s, lengths, d, [&](int64_t t, int64_t b, int64_t k, int64_t length) {
          const T* state = is_o ? all_c.at(t, d, b)
                                : Before(s, all_c, first_c, d, b, length, k);
          sum += static_cast<double>(a.at(t, d, b)[row] * At(state, row % n));
        });
    dp[d * 3 * n + row] = static_cast<T>(sum);
  });
}

template <class T>
void Backward(const KernelContext& c) {
  RunBackward<T>(
      c, kLstm, kLengths,
      [&](const Settings& s, const Lengths& lengths, const Rows<T>& a,
          T* states) { WalkBack(c, s, lengths, a, states); },
      [&](const Settings& s, const Lengths& lengths, const Rows<const T>& a) {
        WeightGradients(c, s, lengths, a, kFirstH, kAllH);
        if (T* dp = OptionalOut<T>(c, 6)) {
          PeepholeGradient(c, s, lengths, a, dp);
        }
      });
}

constexpr ReferenceKernel kForward = Instantiate<Floats>(
    []<class T>(const KernelContext& c) { Forward<T>(c); }, ScratchOfForward);

}  // namespace

namespace {

// Through ONNX Runtime's ops: the forward one keeps what the gradient wants.
void LstmGradient(GradientContext& c) {
  if (c.has_dy(3) || c.has_dy(4))
    c.Fail("has a gradient for its first outputs only");
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  c.Become("LSTMTraining", kMicrosoft);
  const Var states = c.AddedOutput(0, "all_hidden_states", type);
  const Var cells = c.AddedOutput(3, "all_cell_states", type);
  const Var gates = c.AddedOutput(4, "iofc", type);
  const Var inputs[] = {c.x(0), c.x(1), c.x(2), c.x(4),  c.x(5),  c.x(6),
                        states, cells,  gates,  c.dy(0), c.dy(1), c.dy(2)};
  // The kernel of ONNX Runtime wants dW and dR in any case.
  constexpr size_t kSlots[] = {0, 1, 2, 3, 5, 6, 7};
  DataType types[std::size(kSlots)];
  for (size_t i = 0; i < std::size(kSlots); ++i) {
    const bool wanted = c.needs(kSlots[i]) || i == 1 || i == 2;
    types[i] = wanted ? type : DataType::kUndefined;
  }
  const auto gradients =
      b.Ops("LSTMGrad", inputs, types, c.attributes(), kMicrosoft);
  for (size_t i = 0; i < std::size(kSlots); ++i) c.Set(kSlots[i], gradients[i]);
}

}  // namespace

extern constexpr OpDef kLSTM =
    ForwardOp("LSTM", "", 8, 3, InferLstm, kForward, LstmGradient);

extern constexpr OpDef kLSTMTraining =
    ForwardOp("LSTMTraining", kMicrosoft, 8, 5, InferLstmTraining, kForward,
              LstmGradient);

// ONNX Runtime's op ends before the peepholes, without which gradients of a
// model that has them are wrong; passes/name_peepholes.cc adds them.
extern constexpr OpDef kLSTMGrad = GradientOp(
    "LSTMGrad", 13, 7, InferLstmGrad,
    Instantiate<Floats>([]<class T>(const KernelContext& c) { Backward<T>(c); },
                        ScratchOfBackward));

}  // namespace strop::ops
