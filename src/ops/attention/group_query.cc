// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft GroupQueryAttention: causal attention over a cache of keys
// and values, several heads of queries to each head of the cache. Samples may
// differ in how much of the cache they have filled.
//
// query (batch, rows, heads * size), key and value (batch, rows, cache heads
// * size); or all three side by side in the query. Past key and value (batch,
// cache heads, room, size), lengths (int32, batch: keys with the new ones,
// less one), the longest length (int32), cosines and sines (positions,
// pairs), positions, attention bias -> output, present key, present value
#include <array>

#include "base/round.h"
#include "ops/attention/attend.h"
#include "ops/attention/attention_formula.h"
#include "ops/attention/rotary.h"

namespace strop::ops {
namespace {

constexpr size_t kKey = 1, kValue = 2, kPastKey = 3, kPastValue = 4,
                 kLengths = 5, kTotal = 6, kCosines = 7, kSines = 8,
                 kPositions = 9, kAdded = 10;

struct GroupQuery {
  AttentionSizes sizes;  // `fresh` is the room of the present
  int64_t room = 0;      // of the past
  bool packed = false;
  // The longest sample has no past: that of all is left aside.
  bool is_prompt = false;

  // Numbers in a row of the query input.
  int64_t query_width() const {
    return (sizes.heads + (packed ? 2 * sizes.kv_heads : 0)) * sizes.head_size;
  }
};

// Shapes of the query and, where there is one, the past key.
GroupQuery ReadGroupQuery(const OpNode& node, const Shape& query, bool packed,
                          const Shape* past, int64_t total) {
  GroupQuery g;
  AttentionSizes& s = g.sizes;
  s.heads = node.Int("num_heads");
  s.kv_heads = node.Int("kv_num_heads");
  if (query.rank() != 3) {
    Fail(node, "the query must be of rank 3, not {}", query.ToString());
  }
  const int64_t width = query[2];
  if (s.kv_heads < 1 || s.heads < s.kv_heads || s.heads > width ||
      s.heads % s.kv_heads != 0) {
    Fail(node, "{} heads of a query of width {} do not share {} of the cache",
         s.heads, width, s.kv_heads);
  }
  g.packed = packed;
  const int64_t all_heads = s.heads + (packed ? 2 * s.kv_heads : 0);
  if (width % all_heads != 0) {
    Fail(node, "{} is not cut into {} heads", query.ToString(), all_heads);
  }
  s.head_size = s.v_head_size = width / all_heads;
  s.batch = query[0];
  s.rows = query[1];
  g.room = past == nullptr ? 0 : past->rank() == 4 ? (*past)[2] : 0;
  if (total < s.rows || total > g.room + s.rows) {
    Fail(node, "a total length of {} does not fit {} rows and room for {}",
         total, s.rows, g.room);
  }
  g.is_prompt = total == s.rows;
  s.fresh = std::max(g.room, total);
  return g;
}

GroupQuery ReadGroupQuery(const KernelContext& c) {
  return ReadGroupQuery(
      c.node(), c.input(0).shape(), !c.has_input(kKey),
      c.has_input(kPastKey) ? &c.input(kPastKey).shape() : nullptr,
      c.scalar<int32_t>(kTotal));
}

// What is for other machines' kernels and rarer models.
void RefuseTheRest(const InferContext& c) {
  const OpNode& node = c.node();
  const auto refuse = [&](std::string_view name) {
    Fail(node, ErrorCode::kNotImplemented, "attribute {} is not supported",
         name);
  };
  for (const std::string_view name :
       {"kv_cache_bit_width", "sliding_window_cache", "qk_output"}) {
    if (node.Int(name, 0) != 0) refuse(name);
  }
  if (node.Int("local_window_size", -1) != -1) refuse("local_window_size");
  if (node.Int("smooth_softmax", -1) > 0) refuse("smooth_softmax");
  if (node.Int("causal", 1) != 1) refuse("causal = 0");
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    if (node.String(name, "NONE") != "NONE") refuse(name);
  }
  for (size_t i = kPositions; i < c.input_count(); ++i) {
    if (i != kAdded && c.has_input(i)) {
      Fail(node, ErrorCode::kNotImplemented, "input {} is not supported", i);
    }
  }
}

void CheckAngles(const InferContext& c, const AttentionSizes& s) {
  if (c.node().Int("do_rotary", 0) == 0) return;
  if (!c.has_input(kCosines) || !c.has_input(kSines)) {
    Fail(c.node(), "do_rotary wants cosines and sines");
  }
  RequireSameType(c, 0, kCosines);
  RequireSame(c, kCosines, kSines);
  const Shape& angles = c.input(kCosines).shape;
  if (angles.rank() != 2 || angles[1] > s.head_size / 2) {
    Fail(c.node(), "angles of shape {} do not fit heads of {}",
         angles.ToString(), s.head_size);
  }
}

void InferGroupQuery(InferContext& c) {
  const OpNode& node = c.node();
  RefuseTheRest(c);
  if (c.has_input(kKey) != c.has_input(kValue)) {
    Fail(node, "has a key or a value only");
  }
  if (c.has_input(kPastKey) != c.has_input(kPastValue)) {
    Fail(node, "has a past of keys or of values only");
  }
  RequireType(c, kTotal, DataType::kInt32);
  RequireOneElement(c, kTotal);
  const GroupQuery g =
      ReadGroupQuery(node, c.input(0).shape, !c.has_input(kKey),
                     c.has_input(kPastKey) ? &c.input(kPastKey).shape : nullptr,
                     c.IntValues(kTotal)[0]);
  const AttentionSizes& s = g.sizes;
  for (const size_t i : {kKey, kValue}) {
    if (!c.has_input(i)) continue;
    RequireSameType(c, 0, i);
    RequireShape(c, i, {s.batch, s.rows, s.kv_heads * s.head_size});
  }
  for (const size_t i : {kPastKey, kPastValue}) {
    if (!c.has_input(i)) continue;
    RequireSameType(c, 0, i);
    RequireShape(c, i, {s.batch, s.kv_heads, g.room, s.head_size});
  }
  RequireType(c, kLengths, DataType::kInt32);
  if (c.input(kLengths).shape.element_count() != s.batch) {
    RequireShape(c, kLengths, {s.batch});
  }
  CheckAngles(c, s);
  if (c.has_input(kAdded)) {
    RequireSameType(c, 0, kAdded);
    RequireBroadcastTo(node, "the attention bias", c.input(kAdded).shape,
                       {s.batch, s.heads, s.rows, c.IntValues(kTotal)[0]});
  }
  const DataType type = c.input(0).type;
  const Shape present = {s.batch, s.kv_heads, s.fresh, s.head_size};
  c.SetOutput(0, type, {s.batch, s.rows, s.heads * s.head_size});
  c.SetOutput(1, type, present);
  c.SetOutput(2, type, present);
}

// Turned queries, and the present where it is no output.
struct GroupQueryScratch {
  size_t query_bytes = 0, present_bytes = 0;

  GroupQueryScratch(const AttentionSizes& s, size_t element)
      : query_bytes(Bytes(s.batch * s.rows * s.heads * s.head_size, element)),
        present_bytes(
            Bytes(s.batch * s.kv_heads * s.fresh * s.head_size, element)) {}

  size_t all() const { return query_bytes + 2 * present_bytes; }

 private:
  static size_t Bytes(int64_t count, size_t element) {
    return RoundUp<size_t>(static_cast<size_t>(count) * element, 64);
  }
};

// The total length is not known here: it is at most that of past and rows.
size_t ScratchBytes(const KernelRequest& r) {
  AttentionSizes s;
  const Shape& query = r.inputs[0].info.shape;
  s.heads = r.node.Int("num_heads");
  s.kv_heads = r.node.Int("kv_num_heads");
  s.batch = query[0];
  s.rows = query[1];
  const int64_t all_heads = s.heads + (r.has_input(kKey) ? 0 : 2 * s.kv_heads);
  s.head_size = s.v_head_size = query[2] / all_heads;
  const int64_t room =
      r.has_input(kPastKey) ? r.inputs[kPastKey].info.shape[2] : 0;
  s.fresh = room + s.rows;
  const size_t scratch =
      GroupQueryScratch(s, DataTypeSize(r.inputs[0].info.type)).all();
  return s.rows == 0 ? scratch : scratch + s.scratch_bytes();
}

template <class T>
class GroupQueryRun {
 public:
  explicit GroupQueryRun(const KernelContext& c)
      : c_(c),
        g_(ReadGroupQuery(c)),
        s_(g_.sizes),
        total_(c.scalar<int32_t>(kTotal)),
        lengths_(c.in<int32_t>(kLengths).data()) {
    const GroupQueryScratch parts(s_, sizeof(T));
    queries_ = reinterpret_cast<T*>(c.scratch());
    rest_ = c.scratch() + parts.query_bytes;
    for (size_t i = 0; i < 2; ++i, rest_ += parts.present_bytes) {
      present_[i] = c.has_output(i + 1) ? c.out<T>(i + 1).data()
                                        : reinterpret_cast<T*>(rest_);
    }
    turns_ = c.node().Int("do_rotary", 0) != 0;
    interleaved_ = c.node().Int("rotary_interleaved", 0) != 0;
    if (turns_) pairs_ = c.input(kCosines).shape()[1];
    CheckLengths();
  }

  void Run() {
    FillPresent(0, kKey, kPastKey);
    FillPresent(1, kValue, kPastValue);
    if (s_.rows == 0) return;
    TurnQueries();
    Attention<T> a;
    a.sizes = s_;
    const float scale = c_.node().Float("scale", 0);
    a.scale =
        scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s_.head_size));
    a.softcap = c_.node().Float("softcap", 0);
    a.q = HeadsLast<const T>(queries_, s_.heads, s_.rows, s_.head_size);
    a.k.fresh = Cache(present_[0]);
    a.v.fresh = Cache(present_[1]);
    a.y = HeadsLast(c_.out<T>(0).data(), s_.heads, s_.rows, s_.head_size);
    const T* added = nullptr;
    Dims steps = {};
    if (c_.has_input(kAdded)) {
      added = c_.in<T>(kAdded).data();
      steps = BroadcastStrides(c_.input(kAdded).shape(),
                               {s_.batch, s_.heads, s_.rows, total_});
    }
    Attend(
        c_, a, rest_,
        [&](int64_t batch, int64_t head, int64_t row, int64_t key) {
          if (key > PastOf(batch) + row || key > lengths_[batch]) {
            return -std::numeric_limits<double>::infinity();
          }
          if (added == nullptr) return 0.0;
          return static_cast<double>(added[batch * steps[0] + head * steps[1] +
                                           row * steps[2] + key * steps[3]]);
        });
  }

 private:
  // Rows of the past that a sample has.
  int64_t PastOf(int64_t batch) const {
    return g_.is_prompt ? 0 : int64_t{lengths_[batch]} + 1 - s_.rows;
  }

  void CheckLengths() const {
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t length = int64_t{lengths_[b]} + 1, past = PastOf(b);
      if (length < 1 || length > total_ || past < 0 || past > g_.room) {
        Fail(c_.node(),
             "sample {} has a length of {}, with {} new rows and {} in all", b,
             length, s_.rows, total_);
      }
      if (!turns_) continue;
      const int64_t known = c_.input(kCosines).shape()[0];
      if (past + s_.rows > known) {
        Fail(c_.node(), "position {} has no angles, there are {}",
             past + s_.rows - 1, known);
      }
    }
  }

  HeadRows<const T> Cache(const T* data) const {
    return HeadsFirst(data, s_.kv_heads, s_.fresh, s_.head_size);
  }

  // Input `i` as its heads: part `first` of the heads where all are packed.
  HeadRows<const T> Fresh(size_t i, int64_t heads, int64_t first) const {
    if (!g_.packed) {
      return HeadsLast(c_.in<T>(i).data(), heads, s_.rows, s_.head_size);
    }
    const int64_t width = g_.query_width();
    return {c_.in<T>(0).data() + first * s_.head_size, s_.rows * width,
            s_.head_size, width};
  }

  void Turn(int64_t position, const T* x, T* y) const {
    if (!turns_) {
      std::copy_n(x, s_.head_size, y);
      return;
    }
    const int64_t at = position * pairs_;
    TurnHead(pairs_, s_.head_size, interleaved_, c_.in<T>(kCosines).data() + at,
             c_.in<T>(kSines).data() + at, x, y);
  }

  // The past, what is new, and zeros. Keys are turned.
  void FillPresent(size_t which, size_t fresh_input, size_t past_input) {
    const bool is_key = which == 0;
    const int64_t first = s_.heads + (is_key ? 0 : s_.kv_heads);
    const HeadRows<const T> fresh = Fresh(fresh_input, s_.kv_heads, first);
    const T* past =
        c_.has_input(past_input) ? c_.in<T>(past_input).data() : nullptr;
    const int64_t size = s_.head_size;
    const auto fill_head = [&](int64_t i) {
      const int64_t batch = i / s_.kv_heads, head = i % s_.kv_heads;
      const int64_t before = PastOf(batch);
      T* to = present_[which] + i * s_.fresh * size;
      if (past != nullptr) {
        std::copy_n(past + i * g_.room * size, before * size, to);
      }
      for (int64_t row = 0; row < s_.rows; ++row) {
        const T* x = fresh.Row(batch, head, row);
        T* y = to + (before + row) * size;
        if (is_key) {
          Turn(before + row, x, y);
        } else {
          std::copy_n(x, size, y);
        }
      }
      const int64_t filled = before + s_.rows;
      std::fill(to + filled * size, to + s_.fresh * size, T{0});
    };
    c_.ParallelFor(s_.batch * s_.kv_heads, static_cast<double>(s_.fresh * size),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) fill_head(i);
                   });
  }

  void TurnQueries() {
    const HeadRows<const T> from = Fresh(0, s_.heads, 0);
    const auto turn_row = [&](int64_t i) {
      const int64_t batch = i / s_.rows, row = i % s_.rows;
      for (int64_t head = 0; head < s_.heads; ++head) {
        Turn(PastOf(batch) + row, from.Row(batch, head, row),
             queries_ + (i * s_.heads + head) * s_.head_size);
      }
    };
    c_.ParallelFor(s_.batch * s_.rows,
                   static_cast<double>(s_.heads * s_.head_size),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) turn_row(i);
                   });
  }

  const KernelContext& c_;
  const GroupQuery g_;
  const AttentionSizes& s_;
  const int64_t total_;
  const int32_t* lengths_;
  bool turns_ = false, interleaved_ = false;
  int64_t pairs_ = 0;
  T* queries_ = nullptr;
  T* present_[2] = {};
  std::byte* rest_ = nullptr;
};

// --- Gradients

// What a node says, as values of its gradient's graph.
class GroupQueryFormula {
 public:
  explicit GroupQueryFormula(GradientContext& c)
      : c_(c),
        b_(c.build()),
        heads_(c.node().Int("num_heads")),
        kv_heads_(c.node().Int("kv_num_heads")),
        rows_(SizeOfAxis(b_, c.x(), 1)),
        total_(
            b_.Reshape(b_.Cast(c.x(kTotal), DataType::kInt64), b_.Ints({}))) {
    last_ = b_.Reshape(b_.Cast(c.x(kLengths), DataType::kInt64),
                       b_.Ints({-1, 1, 1, 1}));
    const Var is_prompt = b_.Compare("Equal", total_, rows_);
    before_ = b_.Where(is_prompt, b_.Int(0), last_ + b_.Int(1) - rows_);
  }

  std::vector<Var> Write() {
    const OpNode node = c_.node();
    const auto [query, key, value] = Inputs();
    AttentionFormula a;
    a.q = SplitHeads(b_, Turned(query, heads_), heads_);
    const Var k =
        Present(SplitHeads(b_, Turned(key, kv_heads_), kv_heads_), kPastKey);
    const Var v = Present(SplitHeads(b_, value, kv_heads_), kPastValue);
    a.k = RepeatHeads(b_, Known(k), heads_, kv_heads_);
    a.v = RepeatHeads(b_, Known(v), heads_, kv_heads_);
    const float scale = node.Float("scale", 0);
    a.scale = scale != 0 ? b_.Scalar(static_cast<double>(scale), b_.type(a.q))
                         : DefaultScale(b_, a.q);
    a.softcap = static_cast<double>(node.Float("softcap", 0));
    a.bias = ForbiddenBias(b_, InSight(), b_.type(a.q));
    a.may_be_dead = c_.has_input(kAdded);
    if (a.may_be_dead) a.bias = a.bias + c_.x(kAdded);
    return {JoinHeads(b_, WriteAttention(b_, a).y), k, v};
  }

 private:
  // Queries, keys and values, (batch, rows, heads * size).
  std::array<Var, 3> Inputs() {
    if (c_.has_input(kKey)) return {c_.x(), c_.x(kKey), c_.x(kValue)};
    const int64_t all = heads_ + 2 * kv_heads_;
    const Var size = b_.Unsqueeze(
        b_.Op("Div", {SizeOfAxis(b_, c_.x(), 2), b_.Int(all)}), {0});
    const auto part = [&](int64_t first, int64_t count) {
      const Var y =
          b_.Op("Slice", {c_.x(), size * b_.Ints({first}),
                          size * b_.Ints({first + count}), b_.Ints({2})});
      auto dims = b_.dims(c_.x());
      if (dims && (*dims)[2].value)
        (*dims)[2].value = *(*dims)[2].value / all * count;
      b_.SetDims(y, std::move(dims));
      return y;
    };
    return {part(0, heads_), part(heads_, kv_heads_),
            part(heads_ + kv_heads_, kv_heads_)};
  }

  // By the angles of each row's position.
  Var Turned(Var x, int64_t heads) {
    const OpNode node = c_.node();
    if (node.Int("do_rotary", 0) == 0) return x;
    const auto angles = b_.static_dims(c_.x(kCosines));
    if (!angles) c_.Fail("the shape of its cosines must be known");
    if (angles->back() == 0) return x;
    const Var positions =
        b_.Reshape(before_, b_.Ints({-1, 1})) + CountTo(b_, rows_);
    b_.SetDims(positions, std::vector<Dimension>(2));
    const Var y = b_.MicrosoftOp(
        "RotaryEmbedding", {x, positions, c_.x(kCosines), c_.x(kSines)},
        {{"num_heads", heads},
         {"rotary_embedding_dim", 2 * angles->back()},
         {"interleaved", node.Int("rotary_interleaved", 0)}});
    b_.SetDims(y, b_.dims(x));
    return WithRank(b_, y, 3);
  }

  // The rows of the past that a sample has, its new ones, and zeros.
  Var Present(Var fresh, size_t past_input) {
    if (!c_.has_input(past_input)) return fresh;
    const Var past = c_.x(past_input);
    const Var parts[] = {past, fresh};
    const Var rows = b_.Transpose(
        b_.Op("Concat", parts, {{"axis", int64_t{2}}}), {0, 2, 1, 3});
    const Var with_zeros =
        b_.Op("Pad", {rows, b_.Ints({0, 0, 0, 0, 0, 1, 0, 0})});
    const Var room = SizeOfAxis(b_, past, 2);
    const Var row = CountTo(b_, b_.Op("Max", {room, total_}));
    const Var before = b_.Reshape(before_, b_.Ints({-1, 1}));
    const Var source =
        b_.Where(b_.Compare("Less", row, before), row,
                 b_.Where(b_.Compare("Less", row, before + rows_),
                          row - before + room, room + rows_));
    const Var y =
        b_.Transpose(b_.Op("GatherND", {with_zeros, b_.Unsqueeze(source, {2})},
                           {{"batch_dims", int64_t{1}}}),
                     {0, 2, 1, 3});
    auto dims = b_.dims(fresh);
    if (dims) (*dims)[2] = {};
    b_.SetDims(y, std::move(dims));
    return WithRank(b_, y, 4);
  }

  // What is behind the total length is room only.
  Var Known(Var present) {
    if (!c_.has_input(kPastKey)) return present;
    const Var y = b_.Op("Slice", {present, b_.Ints({0}),
                                  b_.Unsqueeze(total_, {0}), b_.Ints({2})});
    b_.SetDims(y, b_.dims(present));
    return y;
  }

  // (batch, 1, rows, keys): whether a row looks at a key.
  Var InSight() {
    const Var key = CountTo(b_, total_);
    const Var row = b_.Unsqueeze(CountTo(b_, rows_), {1});
    const Var one = b_.Int(1);
    return b_.Compare("And", b_.Compare("Less", key, before_ + row + one),
                      b_.Compare("Less", key, last_ + one));
  }

  GradientContext& c_;
  GraphBuilder& b_;
  const int64_t heads_, kv_heads_;
  const Var rows_, total_;  // of rank 0
  // (batch, 1, 1, 1): the last row of a sample, and its rows of the past.
  Var last_, before_;
};

std::vector<Var> NodeAsFormula(GradientContext& c) {
  return GroupQueryFormula(c).Write();
}

}  // namespace

extern constexpr OpDef kGroupQueryAttention = {
    .name = "GroupQueryAttention",
    .domain = kMicrosoft,
    .inputs = {1, 17},
    .outputs = {1, 3},
    .infer = InferGroupQuery,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { GroupQueryRun<T>(c).Run(); },
        ScratchBytes),
    .value_inputs = {6},
    .gradient = Rule(FromFormula<NodeAsFormula>),
    .stops_gradient = {5, 6}};

}  // namespace strop::ops
