// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot product attention, plain: for each query row of each head,
//   y = softmax(scale q K' + bias) V
// over the keys that the bias does not forbid.
#pragma once

#include <cmath>

#include "ops/op_util.h"
#include "strop/execution_provider.h"

namespace strop::ops {

// The rows of a tensor's heads: (batch, heads, rows, size), (batch, rows,
// heads * size), or a part of such a tensor.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t batch_step = 0, head_step = 0, row_step = 0;

  T* Row(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * batch_step + head * head_step + row * row_step;
  }
};

// (batch, heads, rows, size)
template <class T>
HeadRows<T> HeadsFirst(T* data, int64_t heads, int64_t rows, int64_t size) {
  return {data, heads * rows * size, rows * size, size};
}
// (batch, rows, heads * size)
template <class T>
HeadRows<T> HeadsLast(T* data, int64_t heads, int64_t rows, int64_t size) {
  return {data, rows * heads * size, size, heads * size};
}

// Rows of the past, then those that are new.
template <class T>
struct CachedRows {
  HeadRows<T> past, fresh;
  int64_t past_rows = 0;

  T* Row(int64_t batch, int64_t head, int64_t row) const {
    return row < past_rows ? past.Row(batch, head, row)
                           : fresh.Row(batch, head, row - past_rows);
  }
};

struct AttentionSizes {
  int64_t batch = 0, heads = 0, kv_heads = 0;
  int64_t rows = 0, past = 0, fresh = 0;  // queries; keys
  int64_t head_size = 0, v_head_size = 0;

  int64_t keys() const { return past + fresh; }
  // One row of scores and one of sums for each head.
  size_t scratch_bytes() const {
    return static_cast<size_t>(batch * heads * (keys() + v_head_size)) *
           sizeof(double);
  }
};

// What output of the scores shows.
enum class ScoreStage { kProduct, kCapped, kBiased, kSoftmax };

template <class T>
struct Attention {
  AttentionSizes sizes;
  HeadRows<const T> q;
  CachedRows<const T> k, v;
  HeadRows<T> y;
  double scale = 1;
  double softcap = 0;   // 0: none
  T* scores = nullptr;  // (batch, heads, rows, keys); may be null
  ScoreStage stage = ScoreStage::kProduct;
};

// One query row. `bias(key)` is added to the key's score; -infinity forbids
// the key, and a row that may look at no key is zero. `weights` and `sums`
// are scratch.
template <class T, class Bias>
void AttendRow(const Attention<T>& a, int64_t batch, int64_t head, int64_t row,
               double* weights, double* sums, Bias bias) {
  const AttentionSizes& s = a.sizes;
  const int64_t keys = s.keys();
  const int64_t kv_head = head / (s.heads / s.kv_heads);
  T* scores = a.scores == nullptr
                  ? nullptr
                  : a.scores + ((batch * s.heads + head) * s.rows + row) * keys;
  const auto show = [&](ScoreStage stage, int64_t key, double value) {
    if (scores != nullptr && stage == a.stage) {
      scores[key] = static_cast<T>(value);
    }
  };
  constexpr double kForbidden = -std::numeric_limits<double>::infinity();
  double largest = kForbidden;
  const T* q = a.q.Row(batch, head, row);
  for (int64_t key = 0; key < keys; ++key) {
    const T* k = a.k.Row(batch, kv_head, key);
    double score = 0;
    for (int64_t i = 0; i < s.head_size; ++i) {
      score += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    }
    score *= a.scale;
    show(ScoreStage::kProduct, key, score);
    if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
    show(ScoreStage::kCapped, key, score);
    const double add = bias(key);
    weights[key] = add == kForbidden ? kForbidden : score + add;
    show(ScoreStage::kBiased, key, score + add);
    largest = std::max(largest, weights[key]);
  }
  double total = 0;
  for (int64_t key = 0; key < keys; ++key) {
    weights[key] =
        weights[key] == kForbidden ? 0 : std::exp(weights[key] - largest);
    total += weights[key];
  }
  std::fill_n(sums, s.v_head_size, 0.0);
  for (int64_t key = 0; key < keys; ++key) {
    const double weight = weights[key] == 0 ? 0 : weights[key] / total;
    show(ScoreStage::kSoftmax, key, weight);
    if (weight == 0) continue;
    const T* v = a.v.Row(batch, kv_head, key);
    for (int64_t i = 0; i < s.v_head_size; ++i) {
      sums[i] += weight * static_cast<double>(v[i]);
    }
  }
  T* y = a.y.Row(batch, head, row);
  for (int64_t i = 0; i < s.v_head_size; ++i) y[i] = static_cast<T>(sums[i]);
}

// `bias(batch, head, row, key)`; `scratch` has sizes.scratch_bytes().
template <class T, class Bias>
void Attend(const KernelContext& c, const Attention<T>& a, std::byte* scratch,
            Bias bias) {
  const AttentionSizes& s = a.sizes;
  const int64_t line = s.keys() + s.v_head_size;
  auto* lines = reinterpret_cast<double*>(scratch);
  const double cost = 2.0 * static_cast<double>(s.rows) *
                      static_cast<double>(s.keys() + 1) *
                      static_cast<double>(s.head_size + s.v_head_size);
  c.ParallelFor(s.batch * s.heads, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / s.heads, head = i % s.heads;
      double* weights = lines + i * line;
      for (int64_t row = 0; row < s.rows; ++row) {
        AttendRow(a, batch, head, row, weights, weights + s.keys(),
                  [&](int64_t key) { return bias(batch, head, row, key); });
      }
    }
  });
}

// to: (batch, heads, keys, size) of all rows.
template <class T>
void CopyRows(const CachedRows<const T>& from, int64_t batch, int64_t heads,
              int64_t rows, int64_t size, T* to) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t row = 0; row < rows; ++row, to += size) {
        std::copy_n(from.Row(b, head, row), size, to);
      }
    }
  }
}

}  // namespace strop::ops
