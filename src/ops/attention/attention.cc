// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attend.h"
#include "ops/attention/attention_formula.h"
#include "ops/number.h"

namespace strop::ops {
namespace {

// Q, K, V, mask, past key, past value, lengths of the keys; all are
// (batch, heads, rows, size) or all (batch, rows, heads * size).
constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6;

// Shapes of Q, K, V and, where there is one, the past of the keys.
AttentionSizes ReadSizes(const OpNode& node, const Shape& q, const Shape& k,
                         const Shape& v, const Shape* past) {
  AttentionSizes s;
  if (q.rank() != k.rank() || q.rank() != v.rank() ||
      (q.rank() != 3 && q.rank() != 4)) {
    Fail(node, "Q {}, K {} and V {} must be of rank 3 or of rank 4",
         q.ToString(), k.ToString(), v.ToString());
  }
  s.batch = q[0];
  if (q.rank() == 4) {
    s.heads = q[1];
    s.kv_heads = k[1];
  } else {
    s.heads = node.Int("q_num_heads");
    s.kv_heads = node.Int("kv_num_heads");
  }
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0) {
    Fail(node, "{} heads of Q do not share {} of K and V", s.heads, s.kv_heads);
  }
  const auto head_size = [&](const Shape& x, int64_t heads) {
    if (x.rank() == 4) return x[3];
    if (x[2] % heads != 0) {
      Fail(node, "{} is not cut into {} heads", x.ToString(), heads);
    }
    return x[2] / heads;
  };
  s.rows = q[q.rank() - 2];
  s.fresh = k[k.rank() - 2];
  s.past = past == nullptr ? 0 : (*past)[2];
  s.head_size = head_size(q, s.heads);
  s.v_head_size = head_size(v, s.kv_heads);
  const bool fits = k[0] == q[0] && v[0] == q[0] &&
                    v[v.rank() - 2] == s.fresh &&
                    head_size(k, s.kv_heads) == s.head_size &&
                    (v.rank() == 3 || v[1] == s.kv_heads);
  if (!fits) {
    Fail(node, "Q {}, K {} and V {} do not fit", q.ToString(), k.ToString(),
         v.ToString());
  }
  return s;
}

AttentionSizes ReadSizes(const InferContext& c) {
  return ReadSizes(c.node(), c.input(0).shape, c.input(1).shape,
                   c.input(2).shape,
                   c.has_input(kPastKey) ? &c.input(kPastKey).shape : nullptr);
}

AttentionSizes ReadSizes(const KernelContext& c) {
  return ReadSizes(
      c.node(), c.input(0).shape(), c.input(1).shape(), c.input(2).shape(),
      c.has_input(kPastKey) ? &c.input(kPastKey).shape() : nullptr);
}

size_t Scratch(const KernelRequest& r) {
  return ReadSizes(
             r.node, r.inputs[0].info.shape, r.inputs[1].info.shape,
             r.inputs[2].info.shape,
             r.has_input(kPastKey) ? &r.inputs[kPastKey].info.shape : nullptr)
      .scratch_bytes();
}

// The shape that a mask is broadcast to; its own last axis may be shorter
// than the keys, the rest is forbidden.
Shape MaskTarget(const AttentionSizes& s, const Shape& mask) {
  return {s.batch, s.heads, s.rows,
          mask.rank() == 0 ? 1 : mask[mask.rank() - 1]};
}

void CheckMask(const InferContext& c, const AttentionSizes& s) {
  const TensorInfo& mask = c.input(kMask);
  if (!DispatchType(AllTypes{}, mask.type, []<class M>() {})) {
    Fail(c.node(), "the mask may not be of type {}", DataTypeName(mask.type));
  }
  const Shape target = MaskTarget(s, mask.shape);
  RequireBroadcastTo(c.node(), "the mask", mask.shape, target);
  if (mask.shape.rank() == 0 || target[3] > s.keys()) {
    Fail(c.node(), "a mask of shape {} does not fit {} keys",
         mask.shape.ToString(), s.keys());
  }
}

void CheckPast(const InferContext& c) {
  const OpNode& node = c.node();
  if (c.has_input(kPastKey) != c.has_input(kPastValue)) {
    Fail(node, "has a past of keys or of values only");
  }
  if (!c.has_input(kPastKey)) return;
  if (c.has_input(kLengths)) {
    Fail(node, "has a past and lengths of the keys too");
  }
  RequireSameType(c, 1, kPastKey);
  RequireSameType(c, 2, kPastValue);
  if (c.input(kPastKey).shape.rank() != 4) {
    Fail(node, "the past key must be of rank 4, not {}",
         c.input(kPastKey).shape.ToString());
  }
  const AttentionSizes s = ReadSizes(c);
  RequireShape(c, kPastKey, {s.batch, s.kv_heads, s.past, s.head_size});
  RequireShape(c, kPastValue, {s.batch, s.kv_heads, s.past, s.v_head_size});
}

void CheckAttributes(const OpNode& node) {
  const int64_t mode = node.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) {
    Fail(node, "attribute qk_matmul_output_mode is {}", mode);
  }
  for (const std::string_view side :
       {"left_window_size", "right_window_size"}) {
    if (node.Int(side, -1) < -1) {
      Fail(node, "attribute {} is {}", side, node.Int(side, -1));
    }
  }
}

void InferAttention(InferContext& c) {
  RequireSameType(c, 0, 1);
  RequireFloat(c, 2);
  CheckAttributes(c.node());
  CheckPast(c);
  const AttentionSizes s = ReadSizes(c);
  if (c.has_input(kMask)) CheckMask(c, s);
  if (c.has_input(kLengths)) {
    RequireType(c, kLengths, DataType::kInt64);
    RequireShape(c, kLengths, {s.batch});
  }
  const TensorInfo& q = c.input(0);
  const DataType v_type = c.input(2).type;
  c.SetOutput(0, q.type,
              q.shape.rank() == 4
                  ? Shape{s.batch, s.heads, s.rows, s.v_head_size}
                  : Shape{s.batch, s.rows, s.heads * s.v_head_size});
  c.SetOutput(1, q.type, {s.batch, s.kv_heads, s.keys(), s.head_size});
  c.SetOutput(2, v_type, {s.batch, s.kv_heads, s.keys(), s.v_head_size});
  c.SetOutput(3, q.type, {s.batch, s.heads, s.rows, s.keys()});
}

// Element i of a mask: a number as it is, a bool as 0 or -infinity.
template <class T>
double MaskAt(const void* mask, int64_t i) {
  const T value = static_cast<const T*>(mask)[i];
  if constexpr (std::is_same_v<T, bool>) {
    return value ? 0 : -std::numeric_limits<double>::infinity();
  } else {
    return ToDouble(value);
  }
}

// What is added to a score: 0, a number of the mask, or -infinity for a key
// that a query may not look at.
class AttentionBias {
 public:
  AttentionBias(const KernelContext& c, const AttentionSizes& s) : sizes_(s) {
    const OpNode& node = c.node();
    is_causal_ = node.Int("is_causal", 0) != 0;
    left_ = node.Int("left_window_size", -1);
    right_ = node.Int("right_window_size", -1);
    if (c.has_input(kLengths)) lengths_ = c.in<int64_t>(kLengths).data();
    if (!c.has_input(kMask)) return;
    const Tensor& mask = c.input(kMask);
    const Shape target = MaskTarget(s, mask.shape());
    steps_ = BroadcastStrides(mask.shape(), target);
    // The last axis is as long as it says, even if that is one.
    steps_[3] = 1;
    mask_keys_ = target[3];
    mask_ = mask.data();
    DispatchType(AllTypes{}, mask.type(), [&]<class M>() { at_ = MaskAt<M>; });
  }

  double operator()(int64_t batch, int64_t head, int64_t row,
                    int64_t key) const {
    constexpr double kForbidden = -std::numeric_limits<double>::infinity();
    if (!InSight(batch, row, key)) return kForbidden;
    if (at_ == nullptr) return 0;
    if (key >= mask_keys_) return kForbidden;
    return at_(mask_, batch * steps_[0] + head * steps_[1] + row * steps_[2] +
                          key * steps_[3]);
  }

 private:
  // Queries come last among the keys that are there.
  bool InSight(int64_t batch, int64_t row, int64_t key) const {
    const int64_t length =
        lengths_ == nullptr
            ? sizes_.keys()
            : std::clamp<int64_t>(lengths_[batch], 0, sizes_.keys());
    const int64_t position =
        row + (lengths_ == nullptr ? sizes_.past : length - sizes_.rows);
    return key < length && (!is_causal_ || key <= position) &&
           (left_ < 0 || position - key <= left_) &&
           (right_ < 0 || key - position <= right_);
  }

  AttentionSizes sizes_;
  bool is_causal_;
  int64_t left_, right_;  // -1: no window
  const int64_t* lengths_ = nullptr;
  const void* mask_ = nullptr;
  double (*at_)(const void*, int64_t) = nullptr;  // null: no mask
  Dims steps_ = {};
  int64_t mask_keys_ = 0;
};

// Tensor `data` of rank 4 or 3 as the rows of its heads.
template <class T>
HeadRows<T> Rows(T* data, bool heads_first, int64_t heads, int64_t rows,
                 int64_t size) {
  return heads_first ? HeadsFirst(data, heads, rows, size)
                     : HeadsLast(data, heads, rows, size);
}

template <class T>
void RunAttention(const KernelContext& c) {
  const OpNode& node = c.node();
  const AttentionSizes s = ReadSizes(c);
  const bool heads_first = c.input(0).shape().rank() == 4;
  Attention<T> a;
  a.sizes = s;
  a.q = Rows(c.in<T>(0).data(), heads_first, s.heads, s.rows, s.head_size);
  a.k.fresh =
      Rows(c.in<T>(1).data(), heads_first, s.kv_heads, s.fresh, s.head_size);
  a.v.fresh =
      Rows(c.in<T>(2).data(), heads_first, s.kv_heads, s.fresh, s.v_head_size);
  a.k.past_rows = a.v.past_rows = s.past;
  if (c.has_input(kPastKey)) {
    a.k.past =
        HeadsFirst(c.in<T>(kPastKey).data(), s.kv_heads, s.past, s.head_size);
    a.v.past = HeadsFirst(c.in<T>(kPastValue).data(), s.kv_heads, s.past,
                          s.v_head_size);
  }
  a.y = Rows(c.out<T>(0).data(), heads_first, s.heads, s.rows, s.v_head_size);
  a.scale = node.Has("scale") ? node.Float("scale", 1)
                              : 1 / std::sqrt(static_cast<double>(s.head_size));
  a.softcap = node.Float("softcap", 0);
  a.scores = c.has_output(3) ? c.out<T>(3).data() : nullptr;
  a.stage = static_cast<ScoreStage>(node.Int("qk_matmul_output_mode", 0));
  Attend(c, a, c.scratch(), AttentionBias(c, s));
  if (c.has_output(1)) {
    CopyRows(a.k, s.batch, s.kv_heads, s.keys(), s.head_size,
             c.out<T>(1).data());
  }
  if (c.has_output(2)) {
    CopyRows(a.v, s.batch, s.kv_heads, s.keys(), s.v_head_size,
             c.out<T>(2).data());
  }
}

// --- Gradients

// The heads of input i of rank 3, or its second axis.
int64_t HeadsOf(GradientContext& c, size_t i, std::string_view attribute) {
  const auto& dims = c.build().dims(c.x(i));
  if (!dims) c.Fail("the rank of its inputs must be known");
  if (dims->size() == 3) return c.node().Int(attribute);
  if (!(*dims)[1].value) c.Fail("the number of heads must be known");
  return *(*dims)[1].value;
}

// What an attention node says, as values of its gradient's graph.
class NodeFormula {
 public:
  explicit NodeFormula(GradientContext& c)
      : c_(c),
        b_(c.build()),
        type_(b_.type(c.x())),
        heads_(HeadsOf(c, 0, "q_num_heads")),
        kv_heads_(HeadsOf(c, 1, "kv_num_heads")),
        is_flat_(*b_.rank(c.x()) == 3) {}

  std::vector<Var> Write() {
    const OpNode node = c_.node();
    const Var q = is_flat_ ? SplitHeads(b_, c_.x(0), heads_) : c_.x(0);
    const Var k = WithPast(1, kPastKey), v = WithPast(2, kPastValue);
    AttentionFormula a;
    a.q = q;
    a.k = RepeatHeads(b_, Valid(k), heads_, kv_heads_);
    a.v = RepeatHeads(b_, Valid(b_.Cast(v, type_)), heads_, kv_heads_);
    a.scale = node.Has("scale") ? b_.Scalar(node.Float("scale", 1), type_)
                                : DefaultScale(b_, q);
    a.softcap = node.Float("softcap", 0);
    a.bias = Bias(q, k);
    a.may_be_dead = true;
    const AttentionValues values = WriteAttention(b_, a);
    const Var stages[] = {values.product, values.capped, values.biased,
                          values.softmax};
    return {is_flat_ ? JoinHeads(b_, values.y) : values.y, k, v,
            stages[node.Int("qk_matmul_output_mode", 0)]};
  }

 private:
  Var WithPast(size_t i, size_t past) {
    const Var x = is_flat_ ? SplitHeads(b_, c_.x(i), kv_heads_) : c_.x(i);
    if (!c_.has_input(past)) return x;
    const Var parts[] = {c_.x(past), x};
    const Var all = b_.Op("Concat", parts, {{"axis", int64_t{2}}});
    auto dims = b_.dims(x);
    if (dims) (*dims)[2] = {};
    b_.SetDims(all, dims);
    return all;
  }

  // (batch, 1, 1, 1): how many keys of each sample count.
  Var Lengths(Var keys) {
    const Var clamped =
        b_.Op("Min", {b_.Op("Max", {c_.x(kLengths), b_.Int(0)}), keys});
    return b_.Unsqueeze(clamped, {1, 2, 3});
  }

  // Zeros in place of rows beyond the lengths, which may hold anything.
  Var Valid(Var x) {
    if (!c_.has_input(kLengths)) return x;
    const Var count = SizeOfAxis(b_, x, 2);
    const Var row = b_.Unsqueeze(CountTo(b_, count), {1});
    const Var inside = b_.Compare("Less", row, Lengths(count));
    const Var y = b_.Where(inside, x, b_.Scalar(0, type_));
    b_.SetDims(y, b_.dims(x));
    return y;
  }

  // What is added to the scores; no value where nothing is.
  Var Bias(Var q, Var k) {
    Var bias;
    if (c_.has_input(kMask)) bias = Mask(SizeOfAxis(b_, k, 2));
    const Var allowed = InSight(q, k);
    if (!allowed) return bias;
    const Var forbidden = ForbiddenBias(b_, allowed, type_);
    return bias ? bias + forbidden : forbidden;
  }

  // The mask as numbers, as long as there are keys.
  Var Mask(Var keys) {
    Var mask = c_.x(kMask);
    if (b_.type(mask) == DataType::kBool) {
      mask = ForbiddenBias(b_, mask, type_);
    } else {
      mask = b_.Cast(mask, type_);
    }
    const auto own = b_.dims(c_.x(kMask)), k = b_.dims(c_.x(1));
    const bool is_long = own && k && !c_.has_input(kPastKey) &&
                         SameDimension(own->back(), (*k)[k->size() - 2]);
    if (is_long) {
      b_.SetDims(mask, own);
      return mask;
    }
    const Var missing = b_.Unsqueeze(keys - SizeOfAxis(b_, mask, -1), {0});
    const Var pads[] = {b_.Ints({0}), missing};
    const Var never =
        b_.Scalar(-std::numeric_limits<double>::infinity(), type_);
    return b_.Op("Pad", {mask, b_.Op("Concat", pads, {{"axis", int64_t{0}}}),
                         never, b_.Ints({-1})});
  }

  // Which query may look at which key for its place; no value: all may.
  Var InSight(Var q, Var k) {
    const OpNode node = c_.node();
    const bool is_causal = node.Int("is_causal", 0) != 0;
    const int64_t left = node.Int("left_window_size", -1);
    const int64_t right = node.Int("right_window_size", -1);
    if (!is_causal && left < 0 && right < 0 && !c_.has_input(kLengths))
      return {};
    const Var rows = SizeOfAxis(b_, q, 2), keys = SizeOfAxis(b_, k, 2);
    const Var key = CountTo(b_, keys);
    Var offset = b_.Int(0);
    if (c_.has_input(kPastKey)) offset = SizeOfAxis(b_, c_.x(kPastKey), 2);
    Var allowed;
    const auto demand = [&](Var condition) {
      allowed = allowed ? b_.Compare("And", allowed, condition) : condition;
    };
    if (c_.has_input(kLengths)) {
      const Var lengths = Lengths(keys);
      offset = lengths - rows;
      demand(b_.Compare("Less", key, lengths));
    }
    const Var position = b_.Unsqueeze(CountTo(b_, rows), {1}) + offset;
    const auto at_most = [&](Var distance, int64_t most) {
      demand(b_.Op("Not", {b_.Compare("Greater", distance, b_.Int(most))}, {},
                   kOnnx, DataType::kBool));
    };
    if (is_causal) at_most(key - position, 0);
    if (left >= 0) at_most(position - key, left);
    if (right >= 0) at_most(key - position, right);
    return allowed;
  }

  GradientContext& c_;
  GraphBuilder& b_;
  const DataType type_;
  const int64_t heads_, kv_heads_;
  const bool is_flat_;
};

std::vector<Var> NodeAsFormula(GradientContext& c) {
  return NodeFormula(c).Write();
}

}  // namespace

// Q, K, V, mask, past key, past value, lengths -> Y, present key, present
// value, scores
extern constexpr OpDef kAttention = {
    .name = "Attention",
    .since = 23,
    .inputs = {3, 7},
    .outputs = {1, 4},
    .infer = InferAttention,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { RunAttention<T>(c); }, Scratch),
    .gradient = Rule(FromFormula<NodeAsFormula>),
    .stops_gradient = {6},
    .mixes_floats = true};

}  // namespace strop::ops
