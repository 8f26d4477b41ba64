// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft EmbedLayerNormalization: the sum of a word's, a position's
// and a segment's embedding, normalized.
#include <cmath>

#include "ops/attention/attention_formula.h"
#include "ops/op_util.h"

namespace strop::ops {
namespace {

constexpr size_t kWords = 0, kSegments = 1, kWordTable = 2, kPositionTable = 3,
                 kSegmentTable = 4, kGamma = 5, kBeta = 6, kMask = 7,
                 kPositions = 8;

// words, segments (optional), tables of words, positions and segments
// (optional), gamma, beta, mask (optional), positions (optional) -> y, number
// of words that the mask keeps, the sum
void InferEmbed(InferContext& c) {
  const OpNode& node = c.node();
  const Shape& words = c.input(kWords).shape;
  if (words.rank() != 2) {
    Fail(node, "words must be of rank 2, not {}", words.ToString());
  }
  if (c.has_input(kSegments) != c.has_input(kSegmentTable)) {
    Fail(node, "has segments or their table only");
  }
  for (const size_t i : {kWords, kSegments, kMask, kPositions}) {
    if (!c.has_input(i)) continue;
    RequireType(c, i, DataType::kInt32);
    const bool for_all =
        i == kPositions && c.input(i).shape == Shape({1, words[1]});
    if (!for_all) RequireShape(c, i, words);
  }
  const Shape& table = c.input(kWordTable).shape;
  for (const size_t i : {kWordTable, kPositionTable, kSegmentTable}) {
    if (i == kSegmentTable && !c.has_input(i)) continue;
    RequireSameType(c, kWordTable, i);
    const Shape& shape = c.input(i).shape;
    if (shape.rank() != 2 || shape[1] != table[table.rank() - 1]) {
      Fail(node, "tables {} and {} do not fit", table.ToString(),
           shape.ToString());
    }
  }
  for (const size_t i : {kGamma, kBeta}) {
    RequireSameType(c, kWordTable, i);
    RequireShape(c, i, {table[1]});
  }
  const DataType type = c.input(kWordTable).type;
  const Shape y = {words[0], words[1], table[1]};
  c.SetOutput(0, type, y);
  c.SetOutput(1, DataType::kInt32, {words[0]});
  c.SetOutput(2, type, y);
}

// Which rows of the tables a word adds up. Throws where there is no such row.
class EmbeddingRows {
 public:
  explicit EmbeddingRows(const KernelContext& c) : c_(c) {
    length_ = c.input(kWords).shape()[1];
  }

  int64_t Word(int64_t i) const {
    return At(kWordTable, c_.in<int32_t>(kWords)[static_cast<size_t>(i)]);
  }
  int64_t Position(int64_t i) const {
    if (!c_.has_input(kPositions)) return At(kPositionTable, i % length_);
    const auto positions = c_.in<int32_t>(kPositions);
    return At(kPositionTable,
              positions[static_cast<size_t>(i) % positions.size()]);
  }
  int64_t Segment(int64_t i) const {
    return At(kSegmentTable, c_.in<int32_t>(kSegments)[static_cast<size_t>(i)]);
  }

 private:
  int64_t At(size_t table, int64_t row) const {
    const int64_t rows = c_.input(table).shape()[0];
    if (row < 0 || row >= rows) {
      Fail(c_.node(), "row {} of input {} is wanted, there are {}", row, table,
           rows);
    }
    return row;
  }

  const KernelContext& c_;
  int64_t length_;
};

template <class T>
void Embed(const KernelContext& c) {
  const EmbeddingRows rows(c);
  const int64_t size = c.output(0).shape()[2];
  const T* tables[] = {
      c.in<T>(kWordTable).data(), c.in<T>(kPositionTable).data(),
      c.has_input(kSegmentTable) ? c.in<T>(kSegmentTable).data() : nullptr};
  const T* gamma = c.in<T>(kGamma).data();
  const T* beta = c.in<T>(kBeta).data();
  const double epsilon = c.node().Float("epsilon", 1e-12f);
  for (int64_t i = 0; i < c.input(kWords).element_count(); ++i) {
    const T* word = tables[0] + rows.Word(i) * size;
    const T* position = tables[1] + rows.Position(i) * size;
    const T* segment = tables[2] ? tables[2] + rows.Segment(i) * size : nullptr;
    const auto sum = [&](int64_t j) {
      return static_cast<double>(word[j]) + static_cast<double>(position[j]) +
             (segment ? static_cast<double>(segment[j]) : 0);
    };
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < size; ++j) mean += sum(j);
    mean /= static_cast<double>(size);
    for (int64_t j = 0; j < size; ++j) {
      variance += (sum(j) - mean) * (sum(j) - mean);
    }
    const double factor =
        1 / std::sqrt(variance / static_cast<double>(size) + epsilon);
    T* y = c.out<T>(0).data() + i * size;
    for (int64_t j = 0; j < size; ++j) {
      y[j] = static_cast<T>((sum(j) - mean) * factor *
                                static_cast<double>(gamma[j]) +
                            static_cast<double>(beta[j]));
    }
    if (!c.has_output(2)) continue;
    T* sums = c.out<T>(2).data() + i * size;
    for (int64_t j = 0; j < size; ++j) sums[j] = static_cast<T>(sum(j));
  }
}

void CountKept(const KernelContext& c) {
  if (!c.has_output(1)) return;
  const auto counts = c.out<int32_t>(1);
  const int64_t length = c.input(kWords).shape()[1];
  for (size_t b = 0; b < counts.size(); ++b) {
    counts[b] = 0;
    if (!c.has_input(kMask)) continue;
    const int32_t* mask =
        c.in<int32_t>(kMask).data() + static_cast<int64_t>(b) * length;
    counts[b] = static_cast<int32_t>(
        length - std::count(mask, mask + length, int32_t{0}));
  }
}

// --- Gradients

std::vector<Var> EmbedFormula(GradientContext& c) {
  GraphBuilder& b = c.build();
  const Var positions = c.has_input(kPositions)
                            ? c.x(kPositions)
                            : CountTo(b, SizeOfAxis(b, c.x(kWords), 1));
  Var sum = b.Op("Gather", {c.x(kWordTable), c.x(kWords)}) +
            b.Op("Gather", {c.x(kPositionTable), positions});
  if (c.has_input(kSegments))
    sum = sum + b.Op("Gather", {c.x(kSegmentTable), c.x(kSegments)});
  b.SetDims(sum, b.dims(c.y()));
  const Var y = b.Op(
      "LayerNormalization", {WithRank(b, sum, 3), c.x(kGamma), c.x(kBeta)},
      {{"axis", int64_t{-1}}, {"epsilon", c.node().Float("epsilon", 1e-12f)}});
  return {y, {}, sum};
}

}  // namespace

extern constexpr OpDef kEmbedLayerNormalization = {
    .name = "EmbedLayerNormalization",
    .domain = kMicrosoft,
    .inputs = {1, 9},
    .outputs = {1, 3},
    .infer = InferEmbed,
    .reference = Instantiate<Floats, 2>([]<class T>(const KernelContext& c) {
      Embed<T>(c);
      CountKept(c);
    }),
    .gradient = Rule(FromFormula<EmbedFormula>),
    .stops_gradient = {0, 1, 7, 8}};

}  // namespace strop::ops
