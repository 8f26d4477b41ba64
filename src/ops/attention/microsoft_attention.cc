// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft Attention (which projects its input to queries, keys and
// values itself) and MultiHeadAttention (which is given them).
#include "base/round.h"
#include "ops/attention/attend.h"
#include "ops/attention/attention_formula.h"

namespace strop::ops {
namespace {

// --- What both ops add to a score

// The key mask is one of: int32 (batch), the number of keys; (2 batch), their
// number and then the first; (batch, keys) or (batch, rows, keys), 0 for a
// key that is masked; one column of anything masks nothing.
void CheckKeyMask(const InferContext& c, size_t i, const AttentionSizes& s) {
  if (!c.has_input(i)) return;
  RequireType(c, i, DataType::kInt32);
  const Shape& mask = c.input(i).shape;
  const bool fits = mask == Shape({s.batch}) || mask == Shape({2 * s.batch}) ||
                    mask == Shape({s.batch, s.keys()}) ||
                    mask == Shape({s.batch, s.rows, s.keys()}) ||
                    (mask.rank() == 2 && mask[1] == 1);
  if (!fits) {
    Fail(c.node(), ErrorCode::kNotImplemented,
         "a mask of shape {} is not supported for {} samples with {} keys",
         mask.ToString(), s.batch, s.keys());
  }
}

void CheckAddedBias(const InferContext& c, size_t i, const AttentionSizes& s) {
  if (!c.has_input(i)) return;
  RequireSameType(c, 0, i);
  const Shape target = {s.batch, s.heads, s.rows, s.keys()};
  RequireBroadcastTo(c.node(), "the attention bias", c.input(i).shape, target);
}

template <class T>
class MicrosoftBias {
 public:
  MicrosoftBias(const KernelContext& c, const AttentionSizes& s, size_t mask,
                size_t added)
      : sizes_(s) {
    is_causal_ = c.node().Int("unidirectional", 0) != 0;
    masked_ = c.node().Float("mask_filter_value", -10000);
    if (c.has_input(mask)) ReadMask(c.input(mask));
    if (c.has_input(added)) {
      added_ = c.in<T>(added).data();
      added_steps_ = BroadcastStrides(
          c.input(added).shape(), Shape{s.batch, s.heads, s.rows, s.keys()});
    }
  }

  double operator()(int64_t batch, int64_t head, int64_t row,
                    int64_t key) const {
    if (is_causal_ && key > row + sizes_.past) {
      return -std::numeric_limits<double>::infinity();
    }
    double bias = IsMasked(batch, row, key) ? masked_ : 0;
    if (added_ != nullptr) {
      bias += static_cast<double>(
          added_[batch * added_steps_[0] + head * added_steps_[1] +
                 row * added_steps_[2] + key * added_steps_[3]]);
    }
    return bias;
  }

 private:
  void ReadMask(const Tensor& mask) {
    const Shape& shape = mask.shape();
    if (shape.rank() == 2 && shape != Shape({sizes_.batch, sizes_.keys()})) {
      return;
    }
    mask_ = mask.values<int32_t>().data();
    rank_ = shape.rank();
    has_first_ = rank_ == 1 && shape[0] == 2 * sizes_.batch;
  }

  bool IsMasked(int64_t batch, int64_t row, int64_t key) const {
    switch (rank_) {
      case 1:
        return key >= mask_[batch] ||
               (has_first_ && key < mask_[sizes_.batch + batch]);
      case 2:
        return mask_[batch * sizes_.keys() + key] == 0;
      case 3:
        return mask_[(batch * sizes_.rows + row) * sizes_.keys() + key] == 0;
      default:
        return false;
    }
  }

  AttentionSizes sizes_;
  bool is_causal_;
  double masked_;
  const int32_t* mask_ = nullptr;
  size_t rank_ = 0;  // 0: no mask
  bool has_first_ = false;
  const T* added_ = nullptr;
  Dims added_steps_ = {};
};

double ReadScale(const OpNode& node, const AttentionSizes& s) {
  const float scale = node.Float("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.head_size));
}

void RefuseAttributes(const OpNode& node) {
  for (const std::string_view name :
       {"do_rotary", "past_present_share_buffer"}) {
    if (node.Int(name, 0) != 0) {
      Fail(node, ErrorCode::kNotImplemented, "attribute {} is not supported",
           name);
    }
  }
}

// --- Attention: input (batch, rows, features), weight (features, widths of
// query, key and value side by side), bias, mask, past (2, batch, heads,
// rows, size), attention bias -> output, present

constexpr size_t kMask = 3, kPast = 4, kAdded = 5;

struct Projection {
  AttentionSizes sizes;
  int64_t features;
  int64_t widths[3];

  int64_t width() const { return widths[0] + widths[1] + widths[2]; }
};

Projection ReadProjection(const OpNode& node, const Shape& x, const Shape& w,
                          const Shape* past) {
  Projection p = {};
  if (x.rank() != 3 || w.rank() != 2 || x[2] != w[0]) {
    Fail(node, "input {} and weight {} do not fit", x.ToString(), w.ToString());
  }
  const auto widths = node.Ints("qkv_hidden_sizes");
  if (!widths.empty() && widths.size() != 3) {
    Fail(node, "attribute qkv_hidden_sizes has {} numbers, not 3",
         widths.size());
  }
  AttentionSizes& s = p.sizes;
  s.heads = s.kv_heads = node.Int("num_heads");
  int64_t left = w[1];
  for (size_t i = 0; i < 3; ++i) {
    p.widths[i] = widths.empty() ? w[1] / 3 : widths[i];
    if (s.heads < 1 || p.widths[i] < 0 || p.widths[i] > left ||
        p.widths[i] % s.heads != 0) {
      Fail(node, "a width of {} is not cut into {} heads", p.widths[i],
           s.heads);
    }
    left -= p.widths[i];
  }
  if (left != 0 || p.widths[0] != p.widths[1]) {
    Fail(node, "weight {} does not hold widths {}, {} and {}", w.ToString(),
         p.widths[0], p.widths[1], p.widths[2]);
  }
  p.features = x[2];
  s.batch = x[0];
  s.rows = s.fresh = x[1];
  s.head_size = p.widths[0] / s.heads;
  s.v_head_size = p.widths[2] / s.heads;
  if (past != nullptr) {
    s.past = past->rank() == 5 ? (*past)[3] : 0;
    const Shape wanted = {2, s.batch, s.heads, s.past, s.head_size};
    if (*past != wanted || s.v_head_size != s.head_size) {
      Fail(node, "the past has the shape {}, not {}", past->ToString(),
           wanted.ToString());
    }
  }
  return p;
}

void InferMicrosoftAttention(InferContext& c) {
  const OpNode& node = c.node();
  RefuseAttributes(node);
  RequireSameType(c, 0, 1);
  if (c.has_input(6)) {
    Fail(node, ErrorCode::kNotImplemented,
         "input past_sequence_length is not supported");
  }
  const Projection p =
      ReadProjection(node, c.input(0).shape, c.input(1).shape,
                     c.has_input(kPast) ? &c.input(kPast).shape : nullptr);
  const AttentionSizes& s = p.sizes;
  if (c.has_input(2)) {
    RequireSameType(c, 0, 2);
    RequireShape(c, 2, {p.width()});
  }
  CheckKeyMask(c, kMask, s);
  CheckAddedBias(c, kAdded, s);
  if (c.has_input(kPast)) RequireSameType(c, 0, kPast);
  const DataType type = c.input(0).type;
  c.SetOutput(0, type, {s.batch, s.rows, p.widths[2]});
  if (!c.has_output(1)) return;
  if (s.v_head_size != s.head_size) {
    Fail(node, "keys of size {} and values of size {} make no present",
         s.head_size, s.v_head_size);
  }
  c.SetOutput(1, type, {2, s.batch, s.heads, s.keys(), s.head_size});
}

size_t ProjectedBytes(const Projection& p, size_t element) {
  const AttentionSizes& s = p.sizes;
  return RoundUp<size_t>(
      static_cast<size_t>(s.batch * s.rows * p.width()) * element, 64);
}

// The projected rows, then what Attend needs.
size_t MicrosoftScratch(const KernelRequest& r) {
  const Projection p = ReadProjection(
      r.node, r.inputs[0].info.shape, r.inputs[1].info.shape,
      r.has_input(kPast) ? &r.inputs[kPast].info.shape : nullptr);
  return ProjectedBytes(p, DataTypeSize(r.inputs[0].info.type)) +
         p.sizes.scratch_bytes();
}

// to = x w + bias
template <class T>
void Project(const KernelContext& c, const Projection& p, T* to) {
  const T* x = c.in<T>(0).data();
  const T* w = c.in<T>(1).data();
  const T* bias = c.has_input(2) ? c.in<T>(2).data() : nullptr;
  const int64_t width = p.width();
  const auto project_row = [&](int64_t row) {
    T* y = to + row * width;
    for (int64_t j = 0; j < width; ++j) y[j] = bias ? bias[j] : T{0};
    for (int64_t i = 0; i < p.features; ++i) {
      const T factor = x[row * p.features + i];
      for (int64_t j = 0; j < width; ++j) y[j] += factor * w[i * width + j];
    }
  };
  c.ParallelFor(p.sizes.batch * p.sizes.rows,
                static_cast<double>(width * (p.features + 1)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) project_row(i);
                });
}

template <class T>
void MicrosoftAttention(const KernelContext& c) {
  const Projection p =
      ReadProjection(c.node(), c.input(0).shape(), c.input(1).shape(),
                     c.has_input(kPast) ? &c.input(kPast).shape() : nullptr);
  const AttentionSizes& s = p.sizes;
  T* projected = reinterpret_cast<T*>(c.scratch());
  Project<T>(c, p, projected);
  const auto part = [&](int64_t first, int64_t head_size) -> HeadRows<const T> {
    return {projected + first, s.rows * p.width(), head_size, p.width()};
  };
  Attention<T> a;
  a.sizes = s;
  a.scale = ReadScale(c.node(), s);
  a.q = part(0, s.head_size);
  a.k.fresh = part(p.widths[0], s.head_size);
  a.v.fresh = part(p.widths[0] + p.widths[1], s.v_head_size);
  a.k.past_rows = a.v.past_rows = s.past;
  if (c.has_input(kPast)) {
    const T* past = c.in<T>(kPast).data();
    a.k.past = HeadsFirst(past, s.heads, s.past, s.head_size);
    a.v.past = HeadsFirst(past + s.batch * s.heads * s.past * s.head_size,
                          s.heads, s.past, s.head_size);
  }
  a.y = HeadsLast(c.out<T>(0).data(), s.heads, s.rows, s.v_head_size);
  Attend(c, a, c.scratch() + ProjectedBytes(p, sizeof(T)),
         MicrosoftBias<T>(c, s, kMask, kAdded));
  if (!c.has_output(1)) return;
  T* present = c.out<T>(1).data();
  CopyRows(a.k, s.batch, s.heads, s.keys(), s.head_size, present);
  CopyRows(a.v, s.batch, s.heads, s.keys(), s.head_size,
           present + s.batch * s.heads * s.keys() * s.head_size);
}

// --- MultiHeadAttention: query (batch, rows, width), key and value (the same
// or (batch, heads, rows, size)), bias of all three, mask, attention bias,
// past key, past value -> output, present key, present value

constexpr size_t kBias = 3, kKeyMask = 4, kAddedBias = 5, kPastKey = 6,
                 kPastValue = 7;

AttentionSizes ReadMultiHead(const OpNode& node, const Shape& q, const Shape& k,
                             const Shape& v, const Shape* past) {
  AttentionSizes s;
  s.heads = s.kv_heads = node.Int("num_heads");
  const bool packed = q.rank() == 5 || k.rank() == 5;
  if (packed) {
    Fail(node, ErrorCode::kNotImplemented,
         "queries, keys and values in one tensor are not supported");
  }
  if (q.rank() != 3 || k.rank() != v.rank() ||
      (k.rank() != 3 && k.rank() != 4)) {
    Fail(node, "query {}, key {} and value {} do not fit", q.ToString(),
         k.ToString(), v.ToString());
  }
  const bool heads_first = k.rank() == 4;
  s.batch = q[0];
  s.rows = q[1];
  s.fresh = k[k.rank() - 2];
  s.past = past == nullptr || past->rank() != 4 ? 0 : (*past)[2];
  if (s.heads < 1 || q[2] % s.heads != 0) {
    Fail(node, "query {} is not cut into {} heads", q.ToString(), s.heads);
  }
  s.head_size = q[2] / s.heads;
  s.v_head_size = heads_first ? v[3] : v[2] / s.heads;
  const auto wanted = [&](int64_t size) {
    return heads_first ? Shape{s.batch, s.heads, s.fresh, size}
                       : Shape{s.batch, s.fresh, s.heads * size};
  };
  if (k != wanted(s.head_size) || v != wanted(s.v_head_size)) {
    Fail(node, "query {}, key {} and value {} do not fit with {} heads",
         q.ToString(), k.ToString(), v.ToString(), s.heads);
  }
  return s;
}

void CheckMultiHeadInputs(const InferContext& c) {
  const OpNode& node = c.node();
  if (!c.has_input(1) || !c.has_input(2)) {
    Fail(node, ErrorCode::kNotImplemented,
         "queries, keys and values in one tensor are not supported");
  }
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (i > kPastValue && c.has_input(i)) {
      Fail(node, ErrorCode::kNotImplemented, "input {} is not supported", i);
    }
    if (i != kKeyMask && c.has_input(i)) RequireSameType(c, 0, i);
  }
  if (c.has_input(kPastKey) != c.has_input(kPastValue)) {
    Fail(node, "has a past of keys or of values only");
  }
}

void InferMultiHead(InferContext& c) {
  CheckMultiHeadInputs(c);
  const AttentionSizes s = ReadMultiHead(
      c.node(), c.input(0).shape, c.input(1).shape, c.input(2).shape,
      c.has_input(kPastKey) ? &c.input(kPastKey).shape : nullptr);
  if (c.has_input(kBias)) {
    RequireShape(c, kBias, {s.heads * (2 * s.head_size + s.v_head_size)});
    if (c.input(1).shape.rank() == 4) {
      Fail(c.node(), ErrorCode::kNotImplemented,
           "a bias is not supported where the keys are of rank 4");
    }
  }
  CheckKeyMask(c, kKeyMask, s);
  CheckAddedBias(c, kAddedBias, s);
  if (c.has_input(kPastKey)) {
    RequireShape(c, kPastKey, {s.batch, s.heads, s.past, s.head_size});
    RequireShape(c, kPastValue, {s.batch, s.heads, s.past, s.v_head_size});
  }
  const DataType type = c.input(0).type;
  c.SetOutput(0, type, {s.batch, s.rows, s.heads * s.v_head_size});
  c.SetOutput(1, type, {s.batch, s.heads, s.keys(), s.head_size});
  c.SetOutput(2, type, {s.batch, s.heads, s.keys(), s.v_head_size});
}

// Bytes of one input with its bias.
size_t BiasedBytes(const Shape& shape, size_t element) {
  return RoundUp<size_t>(static_cast<size_t>(shape.element_count()) * element,
                         64);
}

// Query, key and value with their bias, then what Attend needs.
size_t MultiHeadScratch(const KernelRequest& r) {
  const AttentionSizes s = ReadMultiHead(
      r.node, r.inputs[0].info.shape, r.inputs[1].info.shape,
      r.inputs[2].info.shape,
      r.has_input(kPastKey) ? &r.inputs[kPastKey].info.shape : nullptr);
  size_t bytes = s.scratch_bytes();
  for (size_t i = 0; r.has_input(kBias) && i < 3; ++i) {
    bytes += BiasedBytes(r.inputs[i].info.shape,
                         DataTypeSize(r.inputs[0].info.type));
  }
  return bytes;
}

// Input i of rank 3 plus its part of the bias, which starts at `first`; moves
// `scratch` behind the sum.
template <class T>
const T* AddBias(const KernelContext& c, size_t i, int64_t first,
                 std::byte*& scratch) {
  const T* x = c.in<T>(i).data();
  if (!c.has_input(kBias)) return x;
  const Shape& shape = c.input(i).shape();
  const T* bias = c.in<T>(kBias).data() + first;
  T* y = reinterpret_cast<T*>(scratch);
  for (int64_t j = 0; j < shape.element_count(); ++j) {
    y[j] = x[j] + bias[j % shape[2]];
  }
  scratch += BiasedBytes(shape, sizeof(T));
  return y;
}

template <class T>
void MultiHeadAttention(const KernelContext& c) {
  const bool heads_first = c.input(1).shape().rank() == 4;
  const AttentionSizes s = ReadMultiHead(
      c.node(), c.input(0).shape(), c.input(1).shape(), c.input(2).shape(),
      c.has_input(kPastKey) ? &c.input(kPastKey).shape() : nullptr);
  std::byte* scratch = c.scratch();
  const int64_t width = s.heads * s.head_size;
  const T* q = AddBias<T>(c, 0, 0, scratch);
  const T* k = AddBias<T>(c, 1, width, scratch);
  const T* v = AddBias<T>(c, 2, 2 * width, scratch);
  Attention<T> a;
  a.sizes = s;
  a.scale = ReadScale(c.node(), s);
  a.q = HeadsLast(q, s.heads, s.rows, s.head_size);
  a.k.fresh = heads_first ? HeadsFirst(k, s.heads, s.fresh, s.head_size)
                          : HeadsLast(k, s.heads, s.fresh, s.head_size);
  a.v.fresh = heads_first ? HeadsFirst(v, s.heads, s.fresh, s.v_head_size)
                          : HeadsLast(v, s.heads, s.fresh, s.v_head_size);
  a.k.past_rows = a.v.past_rows = s.past;
  if (c.has_input(kPastKey)) {
    a.k.past =
        HeadsFirst(c.in<T>(kPastKey).data(), s.heads, s.past, s.head_size);
    a.v.past =
        HeadsFirst(c.in<T>(kPastValue).data(), s.heads, s.past, s.v_head_size);
  }
  a.y = HeadsLast(c.out<T>(0).data(), s.heads, s.rows, s.v_head_size);
  Attend(c, a, scratch, MicrosoftBias<T>(c, s, kKeyMask, kAddedBias));
  if (c.has_output(1)) {
    CopyRows(a.k, s.batch, s.heads, s.keys(), s.head_size, c.out<T>(1).data());
  }
  if (c.has_output(2)) {
    CopyRows(a.v, s.batch, s.heads, s.keys(), s.v_head_size,
             c.out<T>(2).data());
  }
}

// --- Gradients

// True where the key mask says that key t of a sample is masked; no value
// where it masks nothing.
Var Masked(GradientContext& c, size_t mask_input, Var q, Var k) {
  GraphBuilder& b = c.build();
  const Var mask = c.x(mask_input);
  const auto dims = b.dims(mask), queries = b.dims(q);
  const auto fail = [&] { c.Fail("the shape of its mask must be known"); };
  if (!dims || !queries) fail();
  const Var key = CountTo(b, SizeOfAxis(b, k, 2));
  if (dims->size() == 1) {
    const bool is_one = SameDimension((*dims)[0], (*queries)[0]);
    if (!is_one && (!(*dims)[0].value || !(*queries)[0].value)) fail();
    const auto part = [&](int64_t row) {
      if (is_one) return b.Unsqueeze(mask, {1, 2, 3});
      const Var rows = b.Reshape(mask, b.Ints({2, -1}));
      return b.Unsqueeze(b.Op("Gather", {rows, b.Int(row)}), {1, 2, 3});
    };
    const Var at = b.Cast(key, DataType::kInt32);
    const Var is_behind = b.Op("Not", {b.Compare("Less", at, part(0))});
    if (is_one) return is_behind;
    return b.Compare("Or", is_behind, b.Compare("Less", at, part(1)));
  }
  if (dims->size() == 2 && (*dims)[1].value == 1) {
    const auto& keys = b.dims(k);
    if (!keys || !(*keys)[2].value) fail();
    if ((*keys)[2].value != 1) return {};
  }
  const Var is_masked = b.Compare("Equal", mask, b.Scalar(0, DataType::kInt32));
  if (dims->size() == 2) return b.Unsqueeze(is_masked, {1, 2});
  return b.Unsqueeze(is_masked, {1});
}

// All that is added to the scores; no value where nothing is.
Var MicrosoftBiasOf(GradientContext& c, size_t mask, size_t added, Var q, Var k,
                    Var past_rows) {
  GraphBuilder& b = c.build();
  const DataType type = b.type(c.x());
  Var bias;
  const auto add = [&](Var part) { bias = bias ? bias + part : part; };
  if (c.has_input(mask)) {
    if (const Var masked = Masked(c, mask, q, k)) {
      const double fill = c.node().Float("mask_filter_value", -10000);
      add(b.Where(masked, b.Scalar(fill, type), b.Scalar(0, type)));
    }
  }
  if (c.node().Int("unidirectional", 0) != 0) {
    const Var key = CountTo(b, SizeOfAxis(b, k, 2));
    const Var row = b.Unsqueeze(CountTo(b, SizeOfAxis(b, q, 2)), {1});
    const Var is_late = b.Compare("Greater", key, row + past_rows);
    const Var allowed = b.Op("Not", {is_late});
    add(ForbiddenBias(b, allowed, type));
  }
  if (c.has_input(added)) add(c.x(added));
  return bias;
}

// The heads of queries, keys and values, and what attention makes of them.
Var AttendFormula(GradientContext& c, Var q, Var k, Var v, Var bias) {
  GraphBuilder& b = c.build();
  const float scale = c.node().Float("scale", 0);
  AttentionFormula a;
  a.q = q;
  a.k = k;
  a.v = v;
  a.scale = scale != 0 ? b.Scalar(scale, b.type(q)) : DefaultScale(b, q);
  a.bias = bias;
  a.may_be_dead = true;
  return JoinHeads(b, WriteAttention(b, a).y);
}

// (batch, heads, past + rows, size)
Var WithPast(GradientContext& c, Var past, Var x) {
  if (!past) return x;
  GraphBuilder& b = c.build();
  const Var parts[] = {past, x};
  const Var all = b.Op("Concat", parts, {{"axis", int64_t{2}}});
  auto dims = b.dims(x);
  if (dims) (*dims)[2] = {};
  b.SetDims(all, dims);
  return all;
}

std::vector<Var> MicrosoftFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  const int64_t heads = c.node().Int("num_heads");
  auto widths = c.node().Ints("qkv_hidden_sizes");
  const auto weight = b.dims(c.x(1));
  if (widths.empty() && (!weight || !(*weight)[1].value))
    c.Fail("the shape of its weight must be known");
  const int64_t third = widths.empty() ? *(*weight)[1].value / 3 : 0;
  Var all = b.Op("MatMul", {WithRank(b, c.x(0), 3), WithRank(b, c.x(1), 2)});
  if (c.has_input(2)) all = all + c.x(2);
  const auto part = [&](size_t i) {
    int64_t first = 0;
    for (size_t j = 0; j < i; ++j) first += widths.empty() ? third : widths[j];
    const int64_t width = widths.empty() ? third : widths[i];
    const Var x = b.Op(
        "Slice", {all, b.Ints({first}), b.Ints({first + width}), b.Ints({2})});
    auto dims = b.dims(c.x());
    if (dims) (*dims)[2] = {.value = width, .symbol = {}};
    b.SetDims(x, dims);
    return SplitHeads(b, x, heads);
  };
  const auto past = [&](int64_t i) {
    return c.has_input(kPast) ? b.Op("Gather", {c.x(kPast), b.Int(i)}) : Var{};
  };
  const Var q = part(0);
  const Var k = WithPast(c, past(0), part(1)),
            v = WithPast(c, past(1), part(2));
  const Var past_rows =
      c.has_input(kPast) ? SizeOfAxis(b, c.x(kPast), 3) : b.Int(0);
  const Var y = AttendFormula(
      c, q, k, v, MicrosoftBiasOf(c, kMask, kAdded, q, k, past_rows));
  if (!c.has_dy(1)) return {y};
  const Var both[] = {b.Unsqueeze(k, {0}), b.Unsqueeze(v, {0})};
  return {y, b.Op("Concat", both, {{"axis", int64_t{0}}})};
}

std::vector<Var> MultiHeadFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  const int64_t heads = c.node().Int("num_heads");
  const auto rank = b.rank(c.x(1));
  if (!rank) c.Fail("the ranks of its inputs must be known");
  // The bias of the three stands in one vector.
  Var first = b.Ints({0});
  const auto with_bias = [&](size_t i) {
    const Var x = c.x(i);
    if (!c.has_input(kBias)) return x;
    const Var last = first + b.Op("Gather", {b.Shape(x), b.Ints({-1})});
    const Var bias = b.Op("Slice", {c.x(kBias), first, last, b.Ints({0})});
    b.SetDims(bias, std::vector<Dimension>(1));
    first = last;
    const Var sum = x + bias;
    b.SetDims(sum, b.dims(x));
    return sum;
  };
  const auto heads_of = [&](size_t i) {
    return *rank == 4 && i > 0 ? c.x(i) : SplitHeads(b, with_bias(i), heads);
  };
  const auto past = [&](size_t i) { return c.has_input(i) ? c.x(i) : Var{}; };
  const Var q = heads_of(0);
  const Var k = WithPast(c, past(kPastKey), heads_of(1));
  const Var v = WithPast(c, past(kPastValue), heads_of(2));
  const Var past_rows =
      c.has_input(kPastKey) ? SizeOfAxis(b, c.x(kPastKey), 2) : b.Int(0);
  return {
      AttendFormula(c, q, k, v,
                    MicrosoftBiasOf(c, kKeyMask, kAddedBias, q, k, past_rows)),
      k, v};
}

}  // namespace

extern constexpr OpDef kAttentionMicrosoft = {
    .name = "Attention",
    .domain = kMicrosoft,
    .inputs = {2, 7},
    .outputs = {1, 2},
    .infer = InferMicrosoftAttention,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MicrosoftAttention<T>(c); },
        MicrosoftScratch),
    .gradient = Rule(FromFormula<MicrosoftFormula>),
    .stops_gradient = {3}};

extern constexpr OpDef kMultiHeadAttention = {
    .name = "MultiHeadAttention",
    .domain = kMicrosoft,
    .inputs = {1, 10},
    .outputs = {1, 3},
    .infer = InferMultiHead,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { MultiHeadAttention<T>(c); },
        MultiHeadScratch),
    .gradient = Rule(FromFormula<MultiHeadFormula>),
    .stops_gradient = {4}};

}  // namespace strop::ops
