// SPDX-License-Identifier: Apache-2.0
//
// What RNN, LSTM and GRU share: what a node says, the functions of its gates,
// where a step's numbers stand, and the products with the weights.
//
// S steps, B sequences, I numbers per step, H hidden numbers, D directions, G
// gates. X is (S, B, I), W (D, G H, I), R (D, G H, H), the bias (D, 2 G H):
// that of W, then that of R. A state is (D, B, H), what holds a state for each
// step (S, D, B, H). With layout 1 the sequences come first: (B, S, I),
// (B, D, H) and (B, S, D, H).
//
// Sequences do not meet but in the weights: forward kernels, and the walk back
// through time, run one thread per sequence and direction.
#pragma once

#include <cmath>

#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops::recurrent {

// --- Activations

enum class ActivationKind {
  kAffine,           // alpha x + beta
  kElu,              // x, below 0: alpha (exp(x) - 1)
  kHardSigmoid,      // alpha x + beta within [0, 1]
  kLeakyRelu,        // x, below 0: alpha x
  kRelu,             // x, below 0: 0
  kScaledTanh,       // alpha tanh(beta x)
  kSigmoid,          // 1 / (1 + exp(-x))
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kTanh,             // tanh(x)
  kThresholdedRelu,  // x, up to alpha: 0
};

struct Activation {
  ActivationKind kind = ActivationKind::kTanh;
  float alpha = 0, beta = 0;

  // Not inline: the same number gives the same bits wherever it is called.
  template <class T>
  T operator()(T x) const;
  // The derivative at the x for which f(x) = y.
  template <class T>
  T Slope(T y) const;
  // False where y does not tell what the derivative is.
  bool has_slope() const;
};

// --- What a node says

// What tells the ops apart.
struct Family {
  int64_t gates;
  size_t functions;
  ActivationKind defaults[3];
};
inline constexpr Family kRnn = {1, 1, {ActivationKind::kTanh}};
inline constexpr Family kLstm = {
    4,
    3,
    {ActivationKind::kSigmoid, ActivationKind::kTanh, ActivationKind::kTanh}};
inline constexpr Family kGru = {
    3, 2, {ActivationKind::kSigmoid, ActivationKind::kTanh}};

// The inputs of LSTMGrad.
namespace lstm_grad {
enum Input : size_t {
  kX,
  kW,
  kR,
  kLengths,
  kFirstH,
  kFirstC,
  kAllH,  // of all steps, as kAllC and kGates
  kAllC,
  kGates,
  kDAllH,  // gradients, as kDLastH and kDLastC
  kDLastH,
  kDLastC,
  kPeepholes,
};
}  // namespace lstm_grad

// The inputs of GRUGrad.
namespace gru_grad {
enum Input : size_t {
  kX,
  kW,
  kR,
  kBias,
  kLengths,
  kFirst,
  kAll,  // h of all steps
  kGates,
  kDAll,  // gradients of h of all steps, and of the last
  kDLast,
};
}  // namespace gru_grad

struct Settings {
  int64_t steps, batch, input, hidden, directions, gates;
  bool batch_first;
  bool reverse[2];
  Activation functions[2][3];  // of each direction
  float clip;                  // infinite: none

  int64_t gate_count() const { return gates * hidden; }

  Shape StateShape() const;                 // (D, B, H)
  Shape StepsShape(int64_t numbers) const;  // (S, D, B, numbers)
};

// Throws where attributes, X and R do not fit each other.
Settings ReadSettings(const OpNode& node, const Family& family, const Shape& x,
                      const Shape& r);
// From inputs 0 (X) and 2 (R).
Settings ReadSettings(const KernelContext& c, const Family& family);
Settings ReadSettings(const KernelRequest& request, const Family& family);

// --- Shape inference

// Reads the settings and checks W, input 1.
Settings InferSettings(const InferContext& c, const Family& family);
// Input i, which may be left out: of X's type and of this shape.
void CheckOptional(const InferContext& c, size_t i, const Shape& shape);
// Input i: of X's type, with `numbers` numbers for each step.
void RequireSteps(const InferContext& c, size_t i, const Settings& s,
                  int64_t numbers);
// The lengths of the sequences, which may be left out.
void CheckLengthsInput(const InferContext& c, size_t i, const Settings& s);
// The gradient of every function must follow from its value.
void RequireSlopes(const OpNode& node, const Family& family, const Settings& s);

// Outputs 0 to 4 of a gradient: those of X, W, R, the bias and the first h.
void SetGradients(InferContext& c, const Settings& s);

// Bytes of scratch for that many numbers of X's type.
size_t ScratchBytes(const KernelRequest& request, int64_t numbers);
// The same for RunBackward with `states` states of every sequence.
size_t BackwardScratch(const KernelRequest& request, const Family& family,
                       int64_t states);

// --- Steps

// The lengths of the sequences; throws unless each is in [0, steps].
class Lengths {
 public:
  Lengths(const KernelContext& c, size_t input, const Settings& s);
  int64_t operator[](int64_t sequence) const {
    return lengths_.empty() ? steps_ : lengths_[sequence];
  }

 private:
  std::span<const int32_t> lengths_;
  int64_t steps_;
};

// Numbers for each step, direction and sequence, or for some of the three.
template <class T>
struct Rows {
  T* data = nullptr;  // null: left out
  int64_t step = 0, direction = 0, sequence = 0;

  T* at(int64_t t, int64_t d, int64_t b) const {
    return data + t * step + d * direction + b * sequence;
  }
  T* at(int64_t d, int64_t b) const { return at(0, d, b); }
  explicit operator bool() const { return data != nullptr; }
};

// X: rows of `numbers` without a direction.
template <class T>
Rows<T> InputRows(const Settings& s, T* data) {
  return {data, s.batch_first ? s.input : s.batch * s.input, 0,
          s.batch_first ? s.steps * s.input : s.input};
}
// (S, D, B, numbers)
template <class T>
Rows<T> StepRows(const Settings& s, int64_t numbers, T* data) {
  if (s.batch_first) {
    return {data, s.directions * numbers, numbers,
            s.steps * s.directions * numbers};
  }
  return {data, s.directions * s.batch * numbers, s.batch * numbers, numbers};
}
// (D, B, H)
template <class T>
Rows<T> StateRows(const Settings& s, T* data) {
  if (s.batch_first) return {data, 0, s.hidden, s.directions * s.hidden};
  return {data, 0, s.batch * s.hidden, s.hidden};
}

// Data of an input or output that may be left out.
template <class T>
const T* OptionalIn(const KernelContext& c, size_t i) {
  return c.has_input(i) ? c.in<T>(i).data() : nullptr;
}
template <class T>
T* OptionalOut(const KernelContext& c, size_t i) {
  return c.has_output(i) ? c.out<T>(i).data() : nullptr;
}

// Row of matrix or vector i of a direction, null if it is left out: the
// input is (D, numbers).
template <class T>
const T* OfDirection(const KernelContext& c, size_t i, int64_t d,
                     int64_t numbers) {
  return c.has_input(i) ? c.in<T>(i).data() + d * numbers : nullptr;
}

// The step that comes k-th for a sequence of this length.
inline int64_t StepAt(const Settings& s, int64_t d, int64_t length, int64_t k) {
  return s.reverse[d] ? length - 1 - k : k;
}

// A state before step k: that of the step before, the first one, or null,
// which stands for zeros.
template <class T>
const T* Before(const Settings& s, const Rows<const T>& states,
                const Rows<const T>& first, int64_t d, int64_t b,
                int64_t length, int64_t k) {
  if (k > 0) return states.at(StepAt(s, d, length, k - 1), d, b);
  return first ? first.at(d, b) : nullptr;
}

template <class T>
T At(const T* numbers, int64_t i) {
  return numbers ? numbers[i] : T{0};
}

template <class T>
void CopyOrClear(const T* from, int64_t n, T* to) {
  from ? (void)std::copy_n(from, n, to) : (void)std::fill_n(to, n, T{0});
}

// Clears the rows of the steps that a sequence does not have.
template <class T>
void ClearPadding(const Settings& s, const Rows<T>& rows, int64_t numbers,
                  int64_t d, int64_t b, int64_t length) {
  if (!rows) return;
  for (int64_t t = length; t < s.steps; ++t) {
    std::fill_n(rows.at(t, d, b), numbers, T{0});
  }
}

// Writes a state after the last step; a sequence without a step ends with
// zeros, as in ONNX Runtime.
template <class T>
void FinishState(int64_t length, const T* state, int64_t n, const Rows<T>& last,
                 int64_t d, int64_t b) {
  if (last) CopyOrClear(length > 0 ? state : nullptr, n, last.at(d, b));
}
// The gradient of such a state.
template <class T>
void StartGradient(int64_t length, const Rows<const T>& last, int64_t d,
                   int64_t b, int64_t n, T* gradient) {
  CopyOrClear(last && length > 0 ? last.at(d, b) : nullptr, n, gradient);
}

// Calls fn(d, b) for every direction and sequence. A call does `products`
// multiplications.
template <class F>
void ForEachSequence(const KernelContext& c, const Settings& s, double products,
                     F&& fn) {
  c.ParallelFor(s.directions * s.batch, products,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    fn(i / s.batch, i % s.batch);
                  }
                });
}
// Multiplications of a sequence through W and R.
inline double ProductsOf(const Settings& s) {
  return static_cast<double>(s.steps) * static_cast<double>(s.gate_count()) *
         static_cast<double>(s.input + s.hidden);
}

// --- Products

// y += M x
template <class T>
void AddProduct(const T* m, int64_t rows, int64_t columns, const T* x, T* y) {
  for (int64_t i = 0; i < rows; ++i, m += columns) {
    T sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += m[j] * x[j];
    y[i] += sum;
  }
}

// y += M' x
template <class T>
void AddTransposed(const T* m, int64_t rows, int64_t columns, const T* x,
                   T* y) {
  for (int64_t i = 0; i < rows; ++i, m += columns) {
    for (int64_t j = 0; j < columns; ++j) y[j] += m[j] * x[i];
  }
}

// y += factor x
template <class T>
void AddScaled(T factor, const T* x, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// gates = W x + bias of W + bias of R, for the first `rows` gates; the bias
// of R is added to these rows only.
template <class T>
void StartGates(const Settings& s, const T* w, const T* bias, const T* x,
                int64_t rows, T* gates) {
  const int64_t n = s.gate_count();
  CopyOrClear(bias, n, gates);
  if (bias) {
    for (int64_t i = 0; i < rows; ++i) gates[i] += bias[n + i];
  }
  AddProduct(w, n, s.input, x, gates);
}

// Numbers as they enter an activation, and its slope at y = f(x), which is 0
// where x was clipped.
template <class T>
T Clip(const Settings& s, T x) {
  return std::clamp(x, static_cast<T>(-s.clip), static_cast<T>(s.clip));
}
template <class T>
T ClippedSlope(const Settings& s, const Activation& f, T y) {
  if (std::isfinite(s.clip) &&
      (y == f(static_cast<T>(s.clip)) || y == f(static_cast<T>(-s.clip)))) {
    return 0;
  }
  return f.Slope(y);
}

// --- Gradients

// dx = sum of W' a over the directions, where `a` holds the gradients of what
// enters the gates; 0 for the steps that a sequence does not have.
template <class T>
void InputGradient(const KernelContext& c, const Settings& s, const T* w,
                   const Rows<const T>& a, T* dx) {
  const Rows<T> rows = InputRows(s, dx);
  const int64_t n = s.gate_count();
  const double products =
      static_cast<double>(n) * static_cast<double>(s.input * s.directions);
  c.ParallelFor(s.steps * s.batch, products, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = i / s.batch, b = i % s.batch;
      T* row = rows.at(t, 0, b);
      std::fill_n(row, s.input, T{0});
      for (int64_t d = 0; d < s.directions; ++d) {
        AddTransposed(w + d * n * s.input, n, s.input, a.at(t, d, b), row);
      }
    }
  });
}

// Calls fn(d, row) for every gate row of the weights of every direction.
template <class F>
void ForEachWeightRow(const KernelContext& c, const Settings& s, F&& fn) {
  const int64_t n = s.gate_count();
  const double products = static_cast<double>(s.steps * s.batch) *
                          static_cast<double>(s.input + s.hidden);
  c.ParallelFor(s.directions * n, products, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i / n, i % n);
  });
}

// Calls fn(t, b, k, length) for every step that every sequence has, always in
// the same order.
template <class F>
void ForEachStep(const Settings& s, const Lengths& lengths, int64_t d, F&& fn) {
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = lengths[b];
    for (int64_t k = 0; k < length; ++k) {
      fn(StepAt(s, d, length, k), b, k, length);
    }
  }
}

// Outputs 1 to 3: dW = sum of a x', dR = sum of a h', with h the state before
// the step, and dbias = sum of a. X is input 0; `first` and `all` are the
// inputs that hold the first h and h of all steps.
template <class T>
void WeightGradients(const KernelContext& c, const Settings& s,
                     const Lengths& lengths, const Rows<const T>& a,
                     size_t first, size_t all) {
  const int64_t n = s.hidden, rows = s.gate_count();
  const auto x = InputRows(s, c.in<T>(0).data());
  const auto first_h = StateRows(s, OptionalIn<T>(c, first));
  const auto all_h = StepRows(s, n, c.in<T>(all).data());
  T *dw = OptionalOut<T>(c, 1), *dr = OptionalOut<T>(c, 2);
  T* dbias = OptionalOut<T>(c, 3);
  ForEachWeightRow(c, s, [&](int64_t d, int64_t row) {
    T* w_row = dw ? dw + (d * rows + row) * s.input : nullptr;
    T* r_row = dr ? dr + (d * rows + row) * n : nullptr;
    if (w_row) std::fill_n(w_row, s.input, T{0});
    if (r_row) std::fill_n(r_row, n, T{0});
    double sum = 0;
    ForEachStep(s, lengths, d,
                [&](int64_t t, int64_t b, int64_t k, int64_t length) {
                  const T factor = a.at(t, d, b)[row];
                  sum += static_cast<double>(factor);
                  if (w_row) {
                    AddScaled(factor, x.at(t, 0, b), s.input, w_row);
                  }
                  const T* h = Before(s, all_h, first_h, d, b, length, k);
                  if (r_row && h) AddScaled(factor, h, n, r_row);
                });
    if (dbias == nullptr) return;
    // The biases of W and of R are added to the same sums.
    dbias[d * 2 * rows + row] = static_cast<T>(sum);
    dbias[d * 2 * rows + rows + row] = static_cast<T>(sum);
  });
}

// A backward kernel. walk(s, lengths, a, states) fills `a`, the gradients of
// what enters the gates; weights(s, lengths, a) makes those of the weights.
// X and W are inputs 0 and 1, the gradient of X is output 0.
template <class T, class Walk, class Weights>
void RunBackward(const KernelContext& c, const Family& family,
                 size_t lengths_input, Walk walk, Weights weights) {
  const Settings s = ReadSettings(c, family);
  const Lengths lengths(c, lengths_input, s);
  T* scratch = reinterpret_cast<T*>(c.scratch());
  const Rows<T> a = StepRows(s, s.gate_count(), scratch);
  walk(s, lengths, a, scratch + s.StepsShape(s.gate_count()).element_count());
  const Rows<const T> known = {a.data, a.step, a.direction, a.sequence};
  if (T* dx = OptionalOut<T>(c, 0)) {
    InputGradient(c, s, c.in<T>(1).data(), known, dx);
  }
  weights(s, lengths, known);
}

// --- Definitions

using InferFunction = void (*)(InferContext&);

// X, W, R and up to `inputs` inputs, the lengths among them input 4.
constexpr OpDef ForwardOp(std::string_view name, std::string_view domain,
                          int inputs, int outputs, InferFunction infer,
                          const ReferenceKernel& reference,
                          GradientRule gradient = nullptr) {
  return {.name = name,
          .domain = domain,
          .inputs = {3, inputs},
          .outputs = {0, outputs},
          .infer = infer,
          .reference = reference,
          .gradient = Rule(gradient),
          .stops_gradient = {4}};
}
constexpr OpDef GradientOp(std::string_view name, int inputs, int outputs,
                           InferFunction infer,
                           const ReferenceKernel& reference) {
  return {.name = name,
          .domain = kMicrosoft,
          .inputs = {3, inputs},
          .outputs = {0, outputs},
          .infer = infer,
          .reference = reference};
}

}  // namespace strop::ops::recurrent
