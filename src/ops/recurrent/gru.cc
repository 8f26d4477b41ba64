// SPDX-License-Identifier: Apache-2.0
//
// GRU, and the pair that a training graph holds in its place. In each step,
// with h of the step before:
//
//   z = f(Wz x + Rz h + biases)
//   r = f(Wr x + Rr h + biases)
//   g = g(Wh x + bias + Rh (r h) + bias)     or, with linear_before_reset,
//   g = g(Wh x + bias + r (Rh h + bias))
//   h' = (1 - z) g + z h
//
// GRUTraining also gives z, r and g of every step, after their functions.
#include "ops/gradient.h"
#include "ops/recurrent/recurrent.h"

namespace strop::ops {
namespace {

using namespace recurrent;

// What one direction needs to know in every step.
template <class T>
struct Cell {
  const Settings& s;
  const Activation &f, &g;
  const T* w;     // (3 H, I)
  const T* r;     // (3 H, H)
  const T* bias;  // (6 H); null: none
  bool linear_before_reset;

  Cell(const KernelContext& c, const Settings& settings, int64_t d)
      : s(settings),
        f(s.functions[d][0]),
        g(s.functions[d][1]),
        w(c.in<T>(1).data() + d * 3 * s.hidden * s.input),
        r(c.in<T>(2).data() + d * 3 * s.hidden * s.hidden),
        bias(OfDirection<T>(c, 3, d, 6 * s.hidden)),
        linear_before_reset(c.node().Int("linear_before_reset", 0) != 0) {}

  // Rh and its bias.
  const T* r_of_g() const { return r + 2 * s.hidden * s.hidden; }
  const T* bias_of_g() const { return bias ? bias + 5 * s.hidden : nullptr; }
};

// Makes the gates z, r, g from x and h; h moves on. `reset` is room for H
// numbers.
template <class T>
void Step(const Cell<T>& cell, const T* x, T* gates, T* h, T* reset) {
  const Settings& s = cell.s;
  const int64_t n = s.hidden;
  T *z = gates, *r = gates + n, *g = gates + 2 * n;
  StartGates(s, cell.w, cell.bias, x, 2 * n, gates);
  AddProduct(cell.r, 2 * n, n, h, gates);
  for (int64_t j = 0; j < 2 * n; ++j) gates[j] = cell.f(Clip(s, gates[j]));
  if (cell.linear_before_reset) {
    CopyOrClear(cell.bias_of_g(), n, reset);
    AddProduct(cell.r_of_g(), n, n, h, reset);
    for (int64_t j = 0; j < n; ++j) g[j] += r[j] * reset[j];
  } else {
    for (int64_t j = 0; j < n; ++j) g[j] += At(cell.bias_of_g(), j);
    for (int64_t j = 0; j < n; ++j) reset[j] = r[j] * h[j];
    AddProduct(cell.r_of_g(), n, n, reset, g);
  }
  for (int64_t j = 0; j < n; ++j) {
    g[j] = cell.g(Clip(s, g[j]));
    h[j] = (1 - z[j]) * g[j] + z[j] * h[j];
  }
}

// From the gradient of h': `a`, the gradients of what enters the gates, and
// in place of dh the gradient of h. `before` is h, null for zeros; `room`
// holds 2 H numbers.
template <class T>
void StepBack(const Cell<T>& cell, const T* gates, const T* before, T* dh, T* a,
              T* room) {
  const Settings& s = cell.s;
  const int64_t n = s.hidden;
  const T *z = gates, *r = gates + n, *g = gates + 2 * n;
  T *az = a, *ar = a + n, *ag = a + 2 * n;
  for (int64_t j = 0; j < n; ++j) {
    az[j] = dh[j] * (At(before, j) - g[j]) * ClippedSlope(s, cell.f, z[j]);
    ag[j] = dh[j] * (1 - z[j]) * ClippedSlope(s, cell.g, g[j]);
    dh[j] *= z[j];
  }
  if (cell.linear_before_reset) {
    T *reset = room, *through = room + n;
    CopyOrClear(cell.bias_of_g(), n, reset);
    if (before) AddProduct(cell.r_of_g(), n, n, before, reset);
    for (int64_t j = 0; j < n; ++j) {
      ar[j] = ag[j] * reset[j] * ClippedSlope(s, cell.f, r[j]);
      through[j] = ag[j] * r[j];
    }
    AddTransposed(cell.r_of_g(), n, n, through, dh);
  } else {
    T* through = room;
    std::fill_n(through, n, T{0});
    AddTransposed(cell.r_of_g(), n, n, ag, through);
    for (int64_t j = 0; j < n; ++j) {
      ar[j] = through[j] * At(before, j) * ClippedSlope(s, cell.f, r[j]);
      dh[j] += through[j] * r[j];
    }
  }
  AddTransposed(cell.r, 2 * n, n, a, dh);
}

// --- Forward

// X, W, R, bias, lengths, first h
Settings InferForward(const InferContext& c) {
  const Settings s = InferSettings(c, kGru);
  CheckOptional(c, 3, {s.directions, 2 * s.gate_count()});
  CheckLengthsInput(c, 4, s);
  CheckOptional(c, 5, s.StateShape());
  return s;
}

// -> h of all steps, last h
void InferGru(InferContext& c) {
  const Settings s = InferForward(c);
  c.SetOutput(0, c.input(0).type, s.StepsShape(s.hidden));
  c.SetOutput(1, c.input(0).type, s.StateShape());
}

// -> the same, gates of all steps
void InferGruTraining(InferContext& c) {
  InferGru(c);
  const Settings s = InferForward(c);
  RequireSlopes(c.node(), kGru, s);
  c.SetOutput(2, c.input(0).type, s.StepsShape(s.gate_count()));
}

// Of each sequence: the gates of a step, h, and room for the reset h.
constexpr int64_t kForwardStates = 5;
size_t ScratchOfForward(const KernelRequest& request) {
  const Settings s = ReadSettings(request, kGru);
  return ScratchBytes(request, s.StateShape().element_count() * kForwardStates);
}

template <class T>
void Forward(const KernelContext& c) {
  const Settings s = ReadSettings(c, kGru);
  const Lengths lengths(c, 4, s);
  const int64_t n = s.hidden, n3 = 3 * n;
  const auto x = InputRows(s, c.in<T>(0).data());
  const auto first = StateRows(s, OptionalIn<T>(c, 5));
  const auto all = StepRows(s, n, OptionalOut<T>(c, 0));
  const auto last = StateRows(s, OptionalOut<T>(c, 1));
  const auto all_gates = StepRows(s, n3, OptionalOut<T>(c, 2));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Cell<T> cell(c, s, d);
    T* gates = reinterpret_cast<T*>(c.scratch()) +
               (d * s.batch + b) * n * kForwardStates;
    T *h = gates + n3, *reset = h + n;
    CopyOrClear(first ? first.at(d, b) : nullptr, n, h);
    const int64_t length = lengths[b];
    for (int64_t k = 0; k < length; ++k) {
      const int64_t t = StepAt(s, d, length, k);
      Step(cell, x.at(t, 0, b), gates, h, reset);
      if (all) std::copy_n(h, n, all.at(t, d, b));
      if (all_gates) std::copy_n(gates, n3, all_gates.at(t, d, b));
    }
    FinishState(length, h, n, last, d, b);
    ClearPadding(s, all, n, d, b, length);
    ClearPadding(s, all_gates, n3, d, b, length);
  });
}

// --- Backward

using namespace gru_grad;

Settings InferBackward(const InferContext& c) {
  const Settings s = InferForward(c);
  RequireSlopes(c.node(), kGru, s);
  RequireSteps(c, kAll, s, s.hidden);
  RequireSteps(c, kGates, s, s.gate_count());
  CheckOptional(c, kDAll, s.StepsShape(s.hidden));
  CheckOptional(c, kDLast, s.StateShape());
  return s;
}

// -> dX, dW, dR, dbias, gradient of the first h
void InferGruGrad(InferContext& c) { SetGradients(c, InferBackward(c)); }

// The gradients of what enters the gates in all steps; then, of each
// sequence, that of h and room for two states.
constexpr int64_t kBackwardStates = 3;
size_t ScratchOfBackward(const KernelRequest& request) {
  return BackwardScratch(request, kGru, kBackwardStates);
}

// Walks back through time: fills `a` and the gradient of the first state.
template <class T>
void WalkBack(const KernelContext& c, const Settings& s, const Lengths& lengths,
              const Rows<T>& a, T* states) {
  const int64_t n = s.hidden;
  const auto first = StateRows(s, OptionalIn<T>(c, kFirst));
  const auto all = StepRows(s, n, c.in<T>(kAll).data());
  const auto gates = StepRows(s, 3 * n, c.in<T>(kGates).data());
  const auto d_all = StepRows(s, n, OptionalIn<T>(c, kDAll));
  const auto d_last = StateRows(s, OptionalIn<T>(c, kDLast));
  const auto d_first = StateRows(s, OptionalOut<T>(c, 4));
  ForEachSequence(c, s, ProductsOf(s), [&](int64_t d, int64_t b) {
    const Cell<T> cell(c, s, d);
    T* dh = states + (d * s.batch + b) * kBackwardStates * n;
    const int64_t length = lengths[b];
    StartGradient(length, d_last, d, b, n, dh);
    for (int64_t k = length; k-- > 0;) {
      const int64_t t = StepAt(s, d, length, k);
      if (d_all) AddScaled(T{1}, d_all.at(t, d, b), n, dh);
      StepBack(cell, gates.at(t, d, b), Before(s, all, first, d, b, length, k),
               dh, a.at(t, d, b), dh + n);
    }
    ClearPadding(s, a, 3 * n, d, b, length);
    if (d_first) std::copy_n(dh, n, d_first.at(d, b));
  });
}

// One row of the weights' gradients. Rows of g see h through the reset gate:
// before Rh, or with linear_before_reset after it.
template <class T>
struct WeightRow {
  const Settings& s;
  const bool linear_before_reset;
  const int64_t row;
  T *dw, *dr;  // null: left out
  double sum_w = 0, sum_r = 0;

  void Add(const T* a, const T* x, const T* h, const T* gates) {
    const int64_t n = s.hidden;
    const bool is_g = row >= 2 * n;
    const T* reset = gates + n;
    const T factor = a[row];
    const T factor_r =
        is_g && linear_before_reset ? factor * reset[row - 2 * n] : factor;
    sum_w += static_cast<double>(factor);
    sum_r += static_cast<double>(factor_r);
    if (dw) AddScaled(factor, x, s.input, dw);
    if (dr == nullptr || h == nullptr) return;
    if (is_g && !linear_before_reset) {
      for (int64_t j = 0; j < n; ++j) dr[j] += factor * reset[j] * h[j];
    } else {
      AddScaled(factor_r, h, n, dr);
    }
  }
};

template <class T>
void GruWeightGradients(const KernelContext& c, const Settings& s,
                        const Lengths& lengths, const Rows<const T>& a) {
  const int64_t n = s.hidden, n3 = 3 * n;
  const bool linear = c.node().Int("linear_before_reset", 0) != 0;
  const auto x = InputRows(s, c.in<T>(kX).data());
  const auto first = StateRows(s, OptionalIn<T>(c, kFirst));
  const auto all = StepRows(s, n, c.in<T>(kAll).data());
  const auto gates = StepRows(s, n3, c.in<T>(kGates).data());
  T *dw = OptionalOut<T>(c, 1), *dr = OptionalOut<T>(c, 2);
  T* dbias = OptionalOut<T>(c, 3);
  ForEachWeightRow(c, s, [&](int64_t d, int64_t row) {
    WeightRow<T> sums = {s, linear, row,
                         dw ? dw + (d * n3 + row) * s.input : nullptr,
                         dr ? dr + (d * n3 + row) * n : nullptr};
    if (sums.dw) std::fill_n(sums.dw, s.input, T{0});
    if (sums.dr) std::fill_n(sums.dr, n, T{0});
    ForEachStep(
        s, lengths, d, [&](int64_t t, int64_t b, int64_t k, int64_t length) {
          sums.Add(a.at(t, d, b), x.at(t, 0, b),
                   Before(s, all, first, d, b, length, k), gates.at(t, d, b));
        });
    if (dbias == nullptr) return;
    dbias[d * 2 * n3 + row] = static_cast<T>(sums.sum_w);
    dbias[d * 2 * n3 + n3 + row] = static_cast<T>(sums.sum_r);
  });
}

template <class T>
void Backward(const KernelContext& c) {
  RunBackward<T>(
      c, kGru, kLengths,
      [&](const Settings& s, const Lengths& lengths, const Rows<T>& a,
          T* states) { WalkBack(c, s, lengths, a, states); },
      [&](const Settings& s, const Lengths& lengths, const Rows<const T>& a) {
        GruWeightGradients(c, s, lengths, a);
      });
}

constexpr ReferenceKernel kForward = Instantiate<Floats>(
    []<class T>(const KernelContext& c) { Forward<T>(c); }, ScratchOfForward);

}  // namespace

namespace {

// Through ONNX Runtime's ops: the forward one keeps what the gradient wants.
void GruGradient(GradientContext& c) {
  if (c.has_dy(2)) c.Fail("has a gradient for its first outputs only");
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  c.Become("GRUTraining", kMicrosoft);
  const Var states = c.AddedOutput(0, "all_hidden_states", type);
  const Var gates = c.AddedOutput(2, "zrh", type);
  const Var inputs[] = {c.x(0), c.x(1), c.x(2), c.x(3),  c.x(4),
                        c.x(5), states, gates,  c.dy(0), c.dy(1)};
  // The kernel of ONNX Runtime wants dW and dR in any case.
  constexpr size_t kSlots[] = {0, 1, 2, 3, 5};
  DataType types[std::size(kSlots)];
  for (size_t i = 0; i < std::size(kSlots); ++i) {
    const bool wanted = c.needs(kSlots[i]) || i == 1 || i == 2;
    types[i] = wanted ? type : DataType::kUndefined;
  }
  const auto gradients =
      b.Ops("GRUGrad", inputs, types, c.attributes(), kMicrosoft);
  for (size_t i = 0; i < std::size(kSlots); ++i) c.Set(kSlots[i], gradients[i]);
}

}  // namespace

extern constexpr OpDef kGRU =
    ForwardOp("GRU", "", 6, 2, InferGru, kForward, GruGradient);

extern constexpr OpDef kGRUTraining = ForwardOp(
    "GRUTraining", kMicrosoft, 6, 3, InferGruTraining, kForward, GruGradient);

extern constexpr OpDef kGRUGrad = GradientOp(
    "GRUGrad", 10, 5, InferGruGrad,
    Instantiate<Floats>([]<class T>(const KernelContext& c) { Backward<T>(c); },
                        ScratchOfBackward));

}  // namespace strop::ops
