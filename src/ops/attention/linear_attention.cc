// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: a state S (d_k x d_v) for each head is carried from row to
// row, q' S is the output:
//   S = exp(decay) S
//   S = S + k (beta (v - S' k))'     or, without the delta rule,  S + k v'
#include <cmath>

#include "ops/gradient.h"
#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

// Where the inputs stand, from the query on.
constexpr size_t kPast = 3, kDecay = 4, kBeta = 5;
// Of the gradient: the gradients of the outputs come first.
constexpr size_t kQueryOfGrad = 2;

struct UpdateRule {
  bool decays, corrects;
};

UpdateRule ReadRule(const OpNode& node) {
  const std::string_view rule = node.String("update_rule", "gated_delta");
  if (rule == "linear") return {false, false};
  if (rule == "gated") return {true, false};
  if (rule == "delta") return {false, true};
  if (rule == "gated_delta") return {true, true};
  Fail(node, "attribute update_rule is \"{}\"", rule);
}

struct LinearSizes {
  int64_t batch, rows, heads, kv_heads, d_k, d_v;
};

LinearSizes ReadLinear(const OpNode& node, const Shape& q, const Shape& k,
                       const Shape& v) {
  LinearSizes s = {};
  s.heads = node.Int("q_num_heads");
  s.kv_heads = node.Int("kv_num_heads");
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0) {
    Fail(node, "{} heads of the query do not share {} of key and value",
         s.heads, s.kv_heads);
  }
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) {
    Fail(node, "query {}, key {} and value {} must be of rank 3", q.ToString(),
         k.ToString(), v.ToString());
  }
  s.batch = q[0];
  s.rows = q[1];
  s.d_k = q[2] / s.heads;
  s.d_v = v[2] / s.kv_heads;
  if (q[2] != s.heads * s.d_k ||
      k != Shape({s.batch, s.rows, s.kv_heads * s.d_k}) ||
      v != Shape({s.batch, s.rows, s.kv_heads * s.d_v})) {
    Fail(node, "query {}, key {} and value {} do not fit {} and {} heads",
         q.ToString(), k.ToString(), v.ToString(), s.heads, s.kv_heads);
  }
  return s;
}

void RequireIf(const InferContext& c, bool wanted, size_t i,
               std::string_view what) {
  if (c.has_input(i) == wanted) return;
  Fail(c.node(), "update rule {} {} {}",
       c.node().String("update_rule", "gated_delta"),
       wanted ? "wants" : "has no", what);
}

// Query, key, value, past state, decay and beta, from input `first` on.
LinearSizes CheckLinear(const InferContext& c, size_t first) {
  const OpNode& node = c.node();
  const UpdateRule rule = ReadRule(node);
  RequireIf(c, rule.decays, first + kDecay, "decay");
  RequireIf(c, rule.corrects, first + kBeta, "beta");
  for (const size_t i : {size_t{1}, size_t{2}, kDecay, kBeta}) {
    if (c.has_input(first + i)) RequireSameType(c, first, first + i);
  }
  const LinearSizes s =
      ReadLinear(node, c.input(first).shape, c.input(first + 1).shape,
                 c.input(first + 2).shape);
  const auto require_lines = [&](size_t i, int64_t one, int64_t other) {
    if (!c.has_input(i)) return;
    const Shape& shape = c.input(i).shape;
    if (shape != Shape({s.batch, s.rows, one}) &&
        shape != Shape({s.batch, s.rows, other})) {
      Fail(node, "input {} of shape {} should be ({}, {}, {}) or ({}, {}, {})",
           i, shape.ToString(), s.batch, s.rows, one, s.batch, s.rows, other);
    }
  };
  require_lines(first + kDecay, s.kv_heads, s.kv_heads * s.d_k);
  require_lines(first + kBeta, s.kv_heads, 1);
  if (c.has_input(first + kPast)) {
    RequireFloat(c, first + kPast);
    RequireShape(c, first + kPast, {s.batch, s.kv_heads, s.d_k, s.d_v});
  }
  return s;
}

// query, key, value, past state, decay, beta -> output, state
void InferLinear(InferContext& c) {
  const LinearSizes s = CheckLinear(c, 0);
  const DataType type = c.input(0).type;
  c.SetOutput(0, type, {s.batch, s.rows, s.heads * s.d_v});
  c.SetOutput(1, c.has_input(kPast) ? c.input(kPast).type : type,
              {s.batch, s.kv_heads, s.d_k, s.d_v});
}

// For each head of key and value a state and a row of v.
size_t LinearScratch(const KernelRequest& r) {
  const LinearSizes s =
      ReadLinear(r.node, r.inputs[0].info.shape, r.inputs[1].info.shape,
                 r.inputs[2].info.shape);
  return static_cast<size_t>(s.batch * s.kv_heads * (s.d_k + 1) * s.d_v) *
         sizeof(double);
}

template <class T>
class LinearHead {
 public:
  // `scratch` has room for a state and a row of v; `first` is the input of
  // the query.
  LinearHead(const KernelContext& c, const LinearSizes& s, size_t first,
             int64_t batch, int64_t head, double* scratch)
      : c_(c),
        s_(s),
        rule_(ReadRule(c.node())),
        first_(first),
        batch_(batch),
        head_(head),
        state_(scratch),
        change_(scratch + s.d_k * s.d_v) {
    const double scale = c.node().Float("scale", 0);
    scale_ = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.d_k));
  }

  // S is the past state, or 0.
  void Start() {
    const int64_t count = s_.d_k * s_.d_v;
    if (!c_.has_input(first_ + kPast)) {
      std::fill_n(state_, count, 0.0);
    } else {
      std::copy_n(c_.in<T>(first_ + kPast).data() + StateOffset(), count,
                  state_);
    }
  }

  // The state after the row.
  void Advance(int64_t row) {
    const int64_t line = batch_ * s_.rows + row;
    const T* k =
        c_.in<T>(first_ + 1).data() + (line * s_.kv_heads + head_) * s_.d_k;
    const T* v =
        c_.in<T>(first_ + 2).data() + (line * s_.kv_heads + head_) * s_.d_v;
    if (rule_.decays) Decay(line);
    for (int64_t j = 0; j < s_.d_v; ++j) change_[j] = static_cast<double>(v[j]);
    if (rule_.corrects) Correct(line, k);
    for (int64_t i = 0; i < s_.d_k; ++i) {
      const double factor = static_cast<double>(k[i]);
      double* state = state_ + i * s_.d_v;
      for (int64_t j = 0; j < s_.d_v; ++j) state[j] += factor * change_[j];
    }
  }

  void Step(int64_t row) {
    Advance(row);
    const int64_t line = batch_ * s_.rows + row;
    const int64_t group = s_.heads / s_.kv_heads;
    for (int64_t h = head_ * group; h < (head_ + 1) * group; ++h) Read(line, h);
  }

  void Finish() {
    if (!c_.has_output(1)) return;
    T* to = c_.out<T>(1).data() + StateOffset();
    for (int64_t i = 0; i < s_.d_k * s_.d_v; ++i) {
      to[i] = static_cast<T>(state_[i]);
    }
  }

 private:
  int64_t StateOffset() const {
    return (batch_ * s_.kv_heads + head_) * s_.d_k * s_.d_v;
  }

  // One decay for the head, or one for each row of its state.
  void Decay(int64_t line) {
    const T* decay = c_.in<T>(first_ + kDecay).data();
    const bool for_rows = c_.input(first_ + kDecay).shape()[2] != s_.kv_heads;
    const int64_t at = line * s_.kv_heads + head_;
    for (int64_t i = 0; i < s_.d_k; ++i) {
      const double factor = std::exp(
          static_cast<double>(for_rows ? decay[at * s_.d_k + i] : decay[at]));
      double* state = state_ + i * s_.d_v;
      for (int64_t j = 0; j < s_.d_v; ++j) state[j] *= factor;
    }
  }

  // change = beta (v - S' k)
  void Correct(int64_t line, const T* k) {
    const T* beta = c_.in<T>(first_ + kBeta).data();
    const bool for_heads = c_.input(first_ + kBeta).shape()[2] != 1;
    const double rate = static_cast<double>(
        for_heads ? beta[line * s_.kv_heads + head_] : beta[line]);
    for (int64_t i = 0; i < s_.d_k; ++i) {
      const double factor = static_cast<double>(k[i]);
      const double* state = state_ + i * s_.d_v;
      for (int64_t j = 0; j < s_.d_v; ++j) change_[j] -= factor * state[j];
    }
    for (int64_t j = 0; j < s_.d_v; ++j) change_[j] *= rate;
  }

  // y = scale S' q
  void Read(int64_t line, int64_t query_head) {
    const T* q = c_.in<T>(0).data() + (line * s_.heads + query_head) * s_.d_k;
    T* y = c_.out<T>(0).data() + (line * s_.heads + query_head) * s_.d_v;
    std::fill_n(change_, s_.d_v, 0.0);
    for (int64_t i = 0; i < s_.d_k; ++i) {
      const double factor = scale_ * static_cast<double>(q[i]);
      const double* state = state_ + i * s_.d_v;
      for (int64_t j = 0; j < s_.d_v; ++j) change_[j] += factor * state[j];
    }
    for (int64_t j = 0; j < s_.d_v; ++j) y[j] = static_cast<T>(change_[j]);
  }

  const KernelContext& c_;
  const LinearSizes& s_;
  const UpdateRule rule_;
  const size_t first_;
  const int64_t batch_, head_;
  double scale_;
  double* state_;   // d_k x d_v
  double* change_;  // d_v
};

template <class T>
void LinearAttention(const KernelContext& c) {
  const LinearSizes s = ReadLinear(c.node(), c.input(0).shape(),
                                   c.input(1).shape(), c.input(2).shape());
  const double cost = 3.0 * static_cast<double>(s.rows * s.d_k) *
                      static_cast<double>(s.d_v + 1);
  c.ParallelFor(s.batch * s.kv_heads, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto* scratch =
          reinterpret_cast<double*>(c.scratch()) + i * (s.d_k + 1) * s.d_v;
      LinearHead<T> head(c, s, 0, i / s.kv_heads, i % s.kv_heads, scratch);
      head.Start();
      for (int64_t row = 0; row < s.rows; ++row) head.Step(row);
      head.Finish();
    }
  });
}

// --- Gradients

// gradients of the output and of the state (each may be left out), and the
// inputs of the op -> their gradients
void InferLinearGrad(InferContext& c) {
  const LinearSizes s = CheckLinear(c, kQueryOfGrad);
  if (c.has_input(0)) {
    RequireFloat(c, 0);
    RequireShape(c, 0, {s.batch, s.rows, s.heads * s.d_v});
  }
  if (c.has_input(1)) {
    RequireFloat(c, 1);
    RequireShape(c, 1, {s.batch, s.kv_heads, s.d_k, s.d_v});
  }
  for (size_t i = 0; i <= kBeta; ++i) {
    if (!c.has_output(i)) continue;
    // Throws where the input is left out.
    const TensorInfo& x = c.input(kQueryOfGrad + i);
    c.SetOutput(i, x.type, x.shape);
  }
}

// Of each sample: the states before and after all rows, the gradient of a
// state, and what a step of a head needs besides.
int64_t GradNumbers(const LinearSizes& s) {
  return (s.rows + 3) * s.d_k * s.d_v + 4 * s.d_v + 2 * s.d_k;
}

size_t LinearGradScratch(const KernelRequest& r) {
  const LinearSizes s = ReadLinear(r.node, r.inputs[kQueryOfGrad].info.shape,
                                   r.inputs[kQueryOfGrad + 1].info.shape,
                                   r.inputs[kQueryOfGrad + 2].info.shape);
  return static_cast<size_t>(s.batch * GradNumbers(s)) * sizeof(double);
}

// Walks back through the rows of one head. With G the gradient of a state,
// S' the state after the decay, w = v - S'' k and u = beta w (or u = v):
//   G += scale q dy',  dq = scale S dy,  dk = G u,  du = G' k
//   dw = beta du,  dbeta = du w,  dv = dw,  dk -= S' dw,  G -= k dw'
//   ddecay = sum of G S',  G = exp(decay) G
template <class T>
class LinearHeadGrad {
 public:
  LinearHeadGrad(const KernelContext& c, const LinearSizes& s, int64_t batch,
                 int64_t head)
      : c_(c), s_(s), rule_(ReadRule(c.node())), batch_(batch), head_(head) {
    states_ = reinterpret_cast<double*>(c.scratch()) + batch * GradNumbers(s);
    moving_ = states_ + (s.rows + 1) * state_size();
    gradient_ = moving_ + state_size() + s.d_v;
    u_ = gradient_ + state_size();
    du_ = u_ + s.d_v;
    w_ = du_ + s.d_v;
    dk_ = w_ + s.d_v;
    factors_ = dk_ + s.d_k;
    const double scale = c.node().Float("scale", 0);
    scale_ = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.d_k));
  }

  void Run() {
    LinearHead<T> forward(c_, s_, kQueryOfGrad, batch_, head_, moving_);
    forward.Start();
    std::copy_n(moving_, state_size(), states_);
    for (int64_t row = 0; row < s_.rows; ++row) {
      forward.Advance(row);
      std::copy_n(moving_, state_size(), states_ + (row + 1) * state_size());
    }
    const int64_t offset = (batch_ * s_.kv_heads + head_) * state_size();
    for (int64_t i = 0; i < state_size(); ++i) {
      gradient_[i] =
          c_.has_input(1) ? static_cast<double>(c_.in<T>(1)[offset + i]) : 0;
    }
    for (int64_t row = s_.rows; row-- > 0;) StepBack(row);
    if (!c_.has_output(kPast)) return;
    T* past = c_.out<T>(kPast).data() + offset;
    for (int64_t i = 0; i < state_size(); ++i)
      past[i] = static_cast<T>(gradient_[i]);
  }

 private:
  int64_t state_size() const { return s_.d_k * s_.d_v; }
  const T* in(size_t i) const { return c_.in<T>(kQueryOfGrad + i).data(); }
  T* out(size_t i) const {
    return c_.has_output(i) ? c_.out<T>(i).data() : nullptr;
  }

  void StepBack(int64_t row) {
    const int64_t line = batch_ * s_.rows + row;
    const int64_t at = line * s_.kv_heads + head_;
    const T* k = in(1) + at * s_.d_k;
    const T* v = in(2) + at * s_.d_v;
    const int64_t group = s_.heads / s_.kv_heads;
    for (int64_t h = head_ * group; h < (head_ + 1) * group; ++h)
      ReadBack(line * s_.heads + h, states_ + (row + 1) * state_size());
    DecayedState(at, states_ + row * state_size());
    const double rate = Rate(line);
    for (int64_t j = 0; j < s_.d_v; ++j) {
      w_[j] = static_cast<double>(v[j]);
      du_[j] = 0;
      for (int64_t i = 0; i < s_.d_k; ++i) {
        const double factor = static_cast<double>(k[i]);
        if (rule_.corrects) w_[j] -= factor * moving_[i * s_.d_v + j];
        du_[j] += factor * gradient_[i * s_.d_v + j];
      }
      u_[j] = rate * w_[j];
    }
    UpdateBack(k, rate);
    Write(line, at, rate);
  }

  // dq, and G with what the output gives.
  void ReadBack(int64_t query, const double* state) {
    if (!c_.has_input(0)) {
      if (T* dq = out(0)) std::fill_n(dq + query * s_.d_k, s_.d_k, T{0});
      return;
    }
    const T* q = in(0) + query * s_.d_k;
    const T* dy = c_.in<T>(0).data() + query * s_.d_v;
    for (int64_t i = 0; i < s_.d_k; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < s_.d_v; ++j) {
        const double slope = scale_ * static_cast<double>(dy[j]);
        sum += state[i * s_.d_v + j] * slope;
        gradient_[i * s_.d_v + j] += static_cast<double>(q[i]) * slope;
      }
      if (T* dq = out(0)) dq[query * s_.d_k + i] = static_cast<T>(sum);
    }
  }

  // S' in moving_, and the factor of each of its rows.
  void DecayedState(int64_t at, const double* before) {
    for (int64_t i = 0; i < s_.d_k; ++i) {
      factors_[i] = 1;
      if (rule_.decays) {
        factors_[i] = std::exp(static_cast<double>(
            decay_for_rows() ? in(kDecay)[at * s_.d_k + i] : in(kDecay)[at]));
      }
      for (int64_t j = 0; j < s_.d_v; ++j)
        moving_[i * s_.d_v + j] = factors_[i] * before[i * s_.d_v + j];
    }
  }

  bool decay_for_rows() const {
    return c_.input(kQueryOfGrad + kDecay).shape()[2] != s_.kv_heads;
  }
  bool beta_for_heads() const {
    return c_.input(kQueryOfGrad + kBeta).shape()[2] != 1;
  }
  double Rate(int64_t line) const {
    if (!rule_.corrects) return 1;
    return static_cast<double>(
        in(kBeta)[beta_for_heads() ? line * s_.kv_heads + head_ : line]);
  }

  // dk, and G as that of S'.
  void UpdateBack(const T* k, double rate) {
    for (int64_t i = 0; i < s_.d_k; ++i) {
      dk_[i] = 0;
      for (int64_t j = 0; j < s_.d_v; ++j) {
        dk_[i] += gradient_[i * s_.d_v + j] * u_[j];
        if (!rule_.corrects) continue;
        const double dw = rate * du_[j];
        dk_[i] -= moving_[i * s_.d_v + j] * dw;
        gradient_[i * s_.d_v + j] -= static_cast<double>(k[i]) * dw;
      }
    }
  }

  // The gradients of the row's inputs, and G as that of the state before.
  void Write(int64_t line, int64_t at, double rate) {
    if (T* dk = out(1)) {
      for (int64_t i = 0; i < s_.d_k; ++i)
        dk[at * s_.d_k + i] = static_cast<T>(dk_[i]);
    }
    double dbeta = 0, all = 0;
    for (int64_t j = 0; j < s_.d_v; ++j) {
      if (T* dv = out(2)) dv[at * s_.d_v + j] = static_cast<T>(rate * du_[j]);
      dbeta += du_[j] * w_[j];
    }
    if (T* to = out(kBeta)) {
      // Heads that share a beta come one after another.
      const bool own = beta_for_heads();
      T& sum = to[own ? at : line];
      sum = own || head_ == 0 ? static_cast<T>(dbeta)
                              : sum + static_cast<T>(dbeta);
    }
    for (int64_t i = 0; i < s_.d_k; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < s_.d_v; ++j) {
        sum += gradient_[i * s_.d_v + j] * moving_[i * s_.d_v + j];
        gradient_[i * s_.d_v + j] *= factors_[i];
      }
      all += sum;
      if (rule_.decays && out(kDecay) && decay_for_rows())
        out(kDecay)[at * s_.d_k + i] = static_cast<T>(sum);
    }
    if (rule_.decays && out(kDecay) && !decay_for_rows())
      out(kDecay)[at] = static_cast<T>(all);
  }

  const KernelContext& c_;
  const LinearSizes& s_;
  const UpdateRule rule_;
  const int64_t batch_, head_;
  double scale_;
  double* states_;    // before row 0, after row 0, ...
  double* moving_;    // a state and a row of v
  double* gradient_;  // of a state
  double *u_, *du_, *w_, *dk_, *factors_;
};

template <class T>
void LinearAttentionGrad(const KernelContext& c) {
  const LinearSizes s = ReadLinear(c.node(), c.input(kQueryOfGrad).shape(),
                                   c.input(kQueryOfGrad + 1).shape(),
                                   c.input(kQueryOfGrad + 2).shape());
  const double cost = 12.0 * static_cast<double>(s.rows * s.kv_heads * s.d_k) *
                      static_cast<double>(s.d_v + 1);
  c.ParallelFor(s.batch, cost, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      for (int64_t head = 0; head < s.kv_heads; ++head)
        LinearHeadGrad<T>(c, s, batch, head).Run();
    }
  });
}

void LinearGradient(GradientContext& c) {
  std::vector<Var> inputs = {c.dy(0), c.dy(1)};
  std::vector<DataType> types;
  for (size_t i = 0; i < c.input_count(); ++i) {
    inputs.push_back(c.has_input(i) ? c.x(i) : Var{});
    types.push_back(c.needs(i) ? c.build().type(c.x(i)) : DataType::kUndefined);
  }
  const auto gradients = c.build().Ops("LinearAttentionGrad", inputs, types,
                                       c.attributes(), kStrop);
  for (size_t i = 0; i < c.input_count(); ++i) c.Set(i, gradients[i]);
}

}  // namespace

extern constexpr OpDef kLinearAttention = {
    .name = "LinearAttention",
    .since = 27,
    .inputs = {3, 6},
    .outputs = {1, 2},
    .infer = InferLinear,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { LinearAttention<T>(c); },
        LinearScratch),
    .gradient = Rule(LinearGradient),
    .mixes_floats = true};

// gradients of output and state, query, key, value, past state, decay, beta
// -> gradients of the last six; with the attributes of LinearAttention
extern constexpr OpDef kLinearAttentionGrad = {
    .name = "LinearAttentionGrad",
    .domain = kStrop,
    .inputs = {0, 8},
    .outputs = {0, 6},
    .infer = InferLinearGrad,
    .reference = Instantiate<Floats, static_cast<int>(kQueryOfGrad)>(
        []<class T>(const KernelContext& c) { LinearAttentionGrad<T>(c); },
        LinearGradScratch),
    .mixes_floats = true};

}  // namespace strop::ops
