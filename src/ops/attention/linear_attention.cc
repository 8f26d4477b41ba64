// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: a state S (d_k x d_v) for each head is carried from row to
// row, q' S is the output:
//   S = exp(decay) S
//   S = S + k (beta (v - S' k))'     or, without the delta rule,  S + k v'
#include <cmath>

#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops {
namespace {

constexpr size_t kPast = 3, kDecay = 4, kBeta = 5;

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

// query, key, value, past state, decay, beta -> output, state
void InferLinear(InferContext& c) {
  const OpNode& node = c.node();
  const UpdateRule rule = ReadRule(node);
  RequireIf(c, rule.decays, kDecay, "decay");
  RequireIf(c, rule.corrects, kBeta, "beta");
  for (const size_t i : {size_t{1}, size_t{2}, kDecay, kBeta}) {
    if (c.has_input(i)) RequireSameType(c, 0, i);
  }
  const LinearSizes s =
      ReadLinear(node, c.input(0).shape, c.input(1).shape, c.input(2).shape);
  const Shape state = {s.batch, s.kv_heads, s.d_k, s.d_v};
  const auto require_lines = [&](size_t i, int64_t one, int64_t other) {
    if (!c.has_input(i)) return;
    const Shape& shape = c.input(i).shape;
    if (shape != Shape({s.batch, s.rows, one}) &&
        shape != Shape({s.batch, s.rows, other})) {
      Fail(node, "input {} of shape {} should be ({}, {}, {}) or ({}, {}, {})",
           i, shape.ToString(), s.batch, s.rows, one, s.batch, s.rows, other);
    }
  };
  require_lines(kDecay, s.kv_heads, s.kv_heads * s.d_k);
  require_lines(kBeta, s.kv_heads, 1);
  if (c.has_input(kPast)) {
    RequireFloat(c, kPast);
    RequireShape(c, kPast, state);
  }
  const DataType type = c.input(0).type;
  c.SetOutput(0, type, {s.batch, s.rows, s.heads * s.d_v});
  c.SetOutput(1, c.has_input(kPast) ? c.input(kPast).type : type, state);
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
  LinearHead(const KernelContext& c, const LinearSizes& s, int64_t batch,
             int64_t head)
      : c_(c), s_(s), rule_(ReadRule(c.node())), batch_(batch), head_(head) {
    auto* scratch = reinterpret_cast<double*>(c.scratch());
    state_ = scratch + (batch * s.kv_heads + head) * (s.d_k + 1) * s.d_v;
    change_ = state_ + s.d_k * s.d_v;
    const double scale = c.node().Float("scale", 0);
    scale_ = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.d_k));
  }

  // S is the past state, or 0.
  void Start() {
    const int64_t count = s_.d_k * s_.d_v;
    if (!c_.has_input(kPast)) {
      std::fill_n(state_, count, 0.0);
    } else {
      std::copy_n(c_.in<T>(kPast).data() + StateOffset(), count, state_);
    }
  }

  void Step(int64_t row) {
    const int64_t line = batch_ * s_.rows + row;
    const T* k = c_.in<T>(1).data() + (line * s_.kv_heads + head_) * s_.d_k;
    const T* v = c_.in<T>(2).data() + (line * s_.kv_heads + head_) * s_.d_v;
    if (rule_.decays) Decay(line);
    for (int64_t j = 0; j < s_.d_v; ++j) change_[j] = static_cast<double>(v[j]);
    if (rule_.corrects) Correct(line, k);
    for (int64_t i = 0; i < s_.d_k; ++i) {
      const double factor = static_cast<double>(k[i]);
      double* state = state_ + i * s_.d_v;
      for (int64_t j = 0; j < s_.d_v; ++j) state[j] += factor * change_[j];
    }
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
    const T* decay = c_.in<T>(kDecay).data();
    const bool for_rows = c_.input(kDecay).shape()[2] != s_.kv_heads;
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
    const T* beta = c_.in<T>(kBeta).data();
    const bool for_heads = c_.input(kBeta).shape()[2] != 1;
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
      LinearHead<T> head(c, s, i / s.kv_heads, i % s.kv_heads);
      head.Start();
      for (int64_t row = 0; row < s.rows; ++row) head.Step(row);
      head.Finish();
    }
  });
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
    .mixes_floats = true};

}  // namespace strop::ops
