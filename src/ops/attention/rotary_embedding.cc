// SPDX-License-Identifier: Apache-2.0
//
// RotaryEmbedding, of ONNX and of com.microsoft: pairs of a head's numbers
// are turned by angles that depend on the position.
#include "ops/attention/rotary.h"
#include "ops/gradient.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

struct RotarySizes {
  int64_t batch, rows, heads, head_size;
  int64_t pairs;  // that are turned, in each head
  bool heads_first;
  bool has_positions;
};

// ONNX: X, cos, sin, positions. com.microsoft: X, positions, cos, sin.
struct RotaryInputs {
  size_t positions, cosines, sines;
};
constexpr RotaryInputs kOnnxInputs = {3, 1, 2};
constexpr RotaryInputs kMicrosoftInputs = {1, 2, 3};

RotarySizes ReadRotary(const OpNode& node, const Shape& x,
                       const Shape& cosines) {
  RotarySizes s = {};
  const int64_t turned = node.Int("rotary_embedding_dim", 0);
  s.heads_first = x.rank() == 4;
  s.has_positions = cosines.rank() == 2;
  if (x.rank() != 3 && x.rank() != 4) {
    Fail(node, "wants an input of rank 3 or 4, not {}", x.ToString());
  }
  s.batch = x[0];
  if (s.heads_first) {
    s.heads = x[1];
    s.rows = x[2];
    s.head_size = x[3];
  } else {
    s.rows = x[1];
    s.heads = node.Int("num_heads", 0);
    const size_t last = cosines.rank() - 1;
    if (s.heads == 0 && cosines.rank() > 0 && cosines[last] > 0) {
      // Without a number of heads the angles tell: they turn whole heads.
      s.heads = x[2] / (2 * cosines[last]);
    }
    if (s.heads < 1 || x[2] % s.heads != 0) {
      Fail(node, "{} is not cut into {} heads", x.ToString(), s.heads);
    }
    s.head_size = x[2] / s.heads;
  }
  s.pairs = (turned == 0 ? s.head_size : turned) / 2;
  if (turned < 0 || turned > s.head_size || turned % 2 != 0 ||
      (turned == 0 && s.head_size % 2 != 0)) {
    Fail(node, "cannot turn {} numbers of heads of {} in pairs",
         turned == 0 ? s.head_size : turned, s.head_size);
  }
  return s;
}

template <const RotaryInputs& in>
void InferRotary(InferContext& c) {
  const OpNode& node = c.node();
  const TensorInfo& x = c.input(0);
  const Shape& cosines = c.input(in.cosines).shape;
  RequireSameType(c, 0, in.cosines);
  RequireSame(c, in.cosines, in.sines);
  const RotarySizes s = ReadRotary(node, x.shape, cosines);
  const bool has_positions = c.has_input(in.positions);
  if (has_positions != (cosines.rank() == 2) || cosines.rank() < 2 ||
      cosines.rank() > 3 || cosines[cosines.rank() - 1] != s.pairs) {
    Fail(node, "angles of shape {} do not fit {} pairs", cosines.ToString(),
         s.pairs);
  }
  if (has_positions) {
    RequireType(c, in.positions, DataType::kInt64);
    const Shape& positions = c.input(in.positions).shape;
    const bool is_offset = &in == &kMicrosoftInputs && positions == Shape({1});
    if (!is_offset) RequireShape(c, in.positions, {s.batch, s.rows});
  } else if (cosines[0] != s.batch || cosines[1] != s.rows) {
    Fail(node, "angles of shape {} do not fit {} rows of {} samples",
         cosines.ToString(), s.rows, s.batch);
  }
  SameAsInput(c);
}

// The row of angles for each row of x, times the number of pairs.
class Angles {
 public:
  Angles(const KernelContext& c, const RotaryInputs& in, const RotarySizes& s)
      : sizes_(s) {
    if (!s.has_positions) return;
    const auto positions = c.in<int64_t>(in.positions);
    const int64_t known = c.input(in.cosines).shape()[0];
    positions_ = positions.data();
    // com.microsoft: one position is that of the first row.
    is_offset_ = c.input(in.positions).shape().rank() == 1;
    for (const int64_t position : positions) {
      if (position < 0 || position >= known) {
        Fail(c.node(), "position {} has no angles, there are {}", position,
             known);
      }
      if (is_offset_ && s.rows > known - position) {
        Fail(c.node(),
             "{} rows from position {} on have no angles, there are {}", s.rows,
             position, known);
      }
    }
  }

  int64_t Row(int64_t batch, int64_t row) const {
    const int64_t plain = batch * sizes_.rows + row;
    if (positions_ == nullptr) return plain * sizes_.pairs;
    const int64_t position =
        is_offset_ ? positions_[0] + row : positions_[plain];
    return position * sizes_.pairs;
  }

 private:
  const RotarySizes& sizes_;
  const int64_t* positions_ = nullptr;
  bool is_offset_ = false;
};

template <class T, const RotaryInputs& in>
void Rotary(const KernelContext& c) {
  const bool interleaved = c.node().Int("interleaved", 0) != 0;
  const RotarySizes s =
      ReadRotary(c.node(), c.input(0).shape(), c.input(in.cosines).shape());
  if (c.output(0).element_count() == 0) return;
  const Angles angles(c, in, s);
  const T* cosines = c.in<T>(in.cosines).data();
  const T* sines = c.in<T>(in.sines).data();
  const T* x = c.in<T>(0).data();
  T* y = c.out<T>(0).data();
  c.ParallelFor(
      s.batch * s.rows * s.heads, 2.0 * static_cast<double>(s.head_size),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t batch = i / (s.rows * s.heads);
          const int64_t in_sample = i % (s.rows * s.heads);
          const int64_t row =
              s.heads_first ? in_sample % s.rows : in_sample / s.heads;
          const int64_t angle = angles.Row(batch, row);
          TurnHead(s.pairs, s.head_size, interleaved, cosines + angle,
                   sines + angle, x + i * s.head_size, y + i * s.head_size);
        }
      });
}

// --- Gradients

// Gradients of cosines and sines, which are products of the pairs of x and of
// dy, summed over heads and over the rows at one position.
template <const RotaryInputs& in>
class AngleGradient {
 public:
  explicit AngleGradient(GradientContext& c) : c_(c), b_(c.build()) {
    const auto rank = b_.rank(c.x());
    if (!rank) c.Fail("the rank of its input must be known");
    is_flat_ = *rank == 3;
    pairs_ = Size(c.x(in.cosines), -1);
  }

  void Write() {
    const auto [x1, x2] = PairsOf(c_.x());
    const auto [d1, d2] = PairsOf(c_.dy());
    if (c_.needs(in.cosines))
      c_.Set(in.cosines, AtPositions(d1 * x1 + d2 * x2));
    if (c_.needs(in.sines)) c_.Set(in.sines, AtPositions(d2 * x1 - d1 * x2));
  }

 private:
  Var Size(Var x, int64_t axis) {
    return b_.Op("Gather", {b_.Shape(x), b_.Ints({axis})});
  }
  Var Joined(std::initializer_list<Var> parts) {
    return b_.Op("Concat", parts, {{"axis", int64_t{0}}});
  }

  // (batch, rows, heads, size) of a tensor of rank 3.
  Var WithHeads(Var x) {
    const int64_t heads = c_.node().Int("num_heads", 0);
    const Var width = Size(x, 2);
    const Var size = heads == 0 ? pairs_ * b_.Ints({2})
                                : b_.Op("Div", {width, b_.Ints({heads})});
    const Var count =
        heads == 0 ? b_.Op("Div", {width, size}) : b_.Ints({heads});
    return b_.Reshape(x, Joined({Size(x, 0), Size(x, 1), count, size}));
  }

  std::pair<Var, Var> PairsOf(Var x) {
    const Var heads = is_flat_ ? WithHeads(x) : x;
    const bool interleaved = c_.node().Int("interleaved", 0) != 0;
    const Var end = pairs_ * b_.Ints({2}), last = b_.Ints({-1});
    const auto part = [&](Var first, Var limit) {
      return b_.Op("Slice",
                   {heads, first, limit, last, b_.Ints({interleaved ? 2 : 1})});
    };
    if (interleaved) return {part(b_.Ints({0}), end), part(b_.Ints({1}), end)};
    return {part(b_.Ints({0}), pairs_), part(pairs_, end)};
  }

  Var AtPositions(Var products) {
    const Var rows = b_.ReduceSum(products, {is_flat_ ? 2 : 1}, false);
    if (!c_.has_input(in.positions)) return rows;
    const auto rank = b_.rank(c_.x(in.positions));
    if (!rank) c_.Fail("the rank of its positions must be known");
    const Var known = b_.Shape(c_.x(in.cosines));
    const auto gather_grad = [&](Var positions, Var dy) {
      return b_.MicrosoftOp("GatherGrad", {known, positions, dy},
                            {{"axis", int64_t{0}}}, b_.type(dy));
    };
    if (*rank == 2) return gather_grad(c_.x(in.positions), rows);
    // One position is that of the first row.
    const Var count = b_.Squeeze(Size(rows, 1), {0});
    const Var next = b_.Op("Range", {b_.Int(0), count, b_.Int(1)});
    return gather_grad(c_.x(in.positions) + next,
                       b_.ReduceSum(rows, {0}, false));
  }

  GradientContext& c_;
  GraphBuilder& b_;
  bool is_flat_ = false;
  Var pairs_;
};

// x is turned back by the same angles.
template <const RotaryInputs& in>
void RotaryGradient(GradientContext& c) {
  Var inputs[4] = {c.dy()};
  for (size_t i = 1; i < c.input_count(); ++i) inputs[i] = c.x(i);
  if (c.needs(0)) {
    inputs[in.sines] = -inputs[in.sines];
    c.Set(0, c.build().Op("RotaryEmbedding", inputs, c.attributes(),
                          &in == &kOnnxInputs ? kOnnx : kMicrosoft));
  }
  if (c.needs(in.cosines) || c.needs(in.sines)) AngleGradient<in>(c).Write();
}

}  // namespace

extern constexpr OpDef kRotaryEmbedding = {
    .name = "RotaryEmbedding",
    .since = 23,
    .inputs = {3, 4},
    .infer = InferRotary<kOnnxInputs>,
    .reference = Instantiate<Floats>(
        []<class T>(const KernelContext& c) { Rotary<T, kOnnxInputs>(c); }),
    .gradient = Rule(RotaryGradient<kOnnxInputs>),
    .stops_gradient = {3}};

extern constexpr OpDef kRotaryEmbeddingMicrosoft = {
    .name = "RotaryEmbedding",
    .domain = kMicrosoft,
    .inputs = {4, 4},
    .infer = InferRotary<kMicrosoftInputs>,
    .reference = Instantiate<Floats>([]<class T>(const KernelContext& c) {
      Rotary<T, kMicrosoftInputs>(c);
    }),
    .gradient = Rule(RotaryGradient<kMicrosoftInputs>),
    .stops_gradient = {1}};

}  // namespace strop::ops
