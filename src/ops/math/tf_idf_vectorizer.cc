// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer over numbers: how often each n-gram of a pool stands in a
// row. The elements of an n-gram may stand apart, all by the same distance of
// at most max_skip_count + 1.
#include "ops/op_util.h"

namespace strop::ops {
namespace {

constexpr int64_t kMostOutputs = int64_t{1} << 31;

struct Pool {
  std::span<const int64_t> elements;  // 1-grams, then 2-grams, ...
  std::span<const int64_t> starts;    // of the n-grams of length i + 1
  std::span<const int64_t> outputs;   // by n-gram
  std::span<const float> weights;     // by n-gram; empty: all 1
  int64_t shortest, longest, most_skipped;

  int64_t begin(int64_t n) const { return starts[static_cast<size_t>(n - 1)]; }
  int64_t end(int64_t n) const {
    return n < std::ssize(starts) ? starts[static_cast<size_t>(n)]
                                  : std::ssize(elements);
  }
};

Pool ReadPool(const OpNode& node) {
  return {.elements = node.Ints("pool_int64s"),
          .starts = node.Ints("ngram_counts"),
          .outputs = node.Ints("ngram_indexes"),
          .weights = node.Floats("weights"),
          .shortest = node.Int("min_gram_length"),
          .longest = node.Int("max_gram_length"),
          .most_skipped = node.Int("max_skip_count")};
}

void CheckPool(const OpNode& node, const Pool& pool) {
  if (node.Has("pool_strings")) {
    Fail(node, "strings are not supported");
  }
  if (pool.shortest < 1 || pool.longest < pool.shortest ||
      pool.longest > std::ssize(pool.starts) || pool.most_skipped < 0) {
    Fail(node,
         "n-grams of length {} to {} with {} skipped do not fit ngram_counts "
         "of {} numbers",
         pool.shortest, pool.longest, pool.most_skipped, pool.starts.size());
  }
  int64_t grams = 0;
  for (int64_t n = 1; n <= std::ssize(pool.starts); ++n) {
    const int64_t begin = pool.begin(n), end = pool.end(n);
    if (begin < 0 || end < begin || end > std::ssize(pool.elements) ||
        (end - begin) % n != 0 || (n == 1 && begin != 0)) {
      Fail(node, "ngram_counts do not cut the pool of {} into n-grams",
           pool.elements.size());
    }
    grams += (end - begin) / n;
  }
  if (std::ssize(pool.outputs) != grams ||
      (!pool.weights.empty() && std::ssize(pool.weights) != grams)) {
    Fail(node,
         "the pool has {} n-grams, ngram_indexes {} numbers and weights {}",
         grams, pool.outputs.size(), pool.weights.size());
  }
  for (int64_t output : pool.outputs) {
    if (output < 0 || output > kMostOutputs) {
      Fail(node, "ngram_indexes holds {}", output);
    }
  }
}

void InferTfIdf(InferContext& c) {
  const OpNode& node = c.node();
  const Shape& x = c.input(0).shape;
  const std::string_view mode = node.String("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    Fail(node, "mode is \"{}\", wanted is TF, IDF or TFIDF", mode);
  }
  if (x.rank() < 1 || x.rank() > 2) {
    Fail(node, "wants an input of rank 1 or 2, not {}", x.ToString());
  }
  const Pool pool = ReadPool(node);
  CheckPool(node, pool);
  int64_t size = 0;
  for (int64_t output : pool.outputs) size = std::max(size, output + 1);
  c.SetOutput(0, DataType::kFloat32,
              x.rank() == 1 ? Shape{size} : Shape{x[0], size});
}

// How often the n-gram stands in the row.
template <class T>
int64_t Occurrences(std::span<const T> row, std::span<const int64_t> gram,
                    int64_t most_skipped) {
  const int64_t n = std::ssize(gram), size = std::ssize(row);
  int64_t count = 0;
  // One element has no distances.
  const int64_t most_step = n == 1 ? 1 : std::min(most_skipped, size) + 1;
  for (int64_t step = 1; step <= most_step; ++step) {
    for (int64_t first = 0; first + (n - 1) * step < size; ++first) {
      bool same = true;
      for (int64_t k = 0; same && k < n; ++k) {
        same =
            static_cast<int64_t>(row[static_cast<size_t>(first + k * step)]) ==
            gram[static_cast<size_t>(k)];
      }
      count += same;
    }
  }
  return count;
}

template <class T>
void TfIdf(const KernelContext& c) {
  const Pool pool = ReadPool(c.node());
  const std::string_view mode = c.node().String("mode", "");
  const Shape& shape = c.input(0).shape();
  const Shape& out_shape = c.output(0).shape();
  const auto row_size = static_cast<size_t>(shape[shape.rank() - 1]);
  const auto out_size = static_cast<size_t>(out_shape[out_shape.rank() - 1]);
  const int64_t rows = shape.rank() == 1 ? 1 : shape[0];
  std::ranges::fill(c.out<float>(0), 0.0f);
  const double cost =
      static_cast<double>(row_size) * static_cast<double>(pool.elements.size());
  c.ParallelFor(rows, cost, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto at = static_cast<size_t>(r);
      const auto row = c.in<T>(0).subspan(at * row_size, row_size);
      const auto counts = c.out<float>(0).subspan(at * out_size, out_size);
      size_t gram = 0;
      for (int64_t n = 1; n <= std::ssize(pool.starts); ++n) {
        for (int64_t i = pool.begin(n); i < pool.end(n); i += n, ++gram) {
          if (n < pool.shortest || n > pool.longest) continue;
          const auto elements = pool.elements.subspan(static_cast<size_t>(i),
                                                      static_cast<size_t>(n));
          const int64_t count = Occurrences(row, elements, pool.most_skipped);
          const float weight =
              mode == "TF" || pool.weights.empty() ? 1 : pool.weights[gram];
          const float times = mode == "IDF" ? static_cast<float>(count > 0)
                                            : static_cast<float>(count);
          counts[static_cast<size_t>(pool.outputs[gram])] += times * weight;
        }
      }
    }
  });
}

}  // namespace

// numbers (size) or (rows, size) -> float32 (outputs) or (rows, outputs).
extern constexpr OpDef kTfIdfVectorizer = {
    .name = "TfIdfVectorizer",
    .since = 9,
    .infer = InferTfIdf,
    .reference = Instantiate<Indices>(
        []<class T>(const KernelContext& c) { TfIdf<T>(c); })};

}  // namespace strop::ops
