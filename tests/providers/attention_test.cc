// SPDX-License-Identifier: Apache-2.0
//
// The kernels of Attention and AttentionGrad against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

enum class Mask {
  kNone,
  kRandom,          // of its own for each head
  kCausal,          // -1e9 above the diagonal
  kCausalInfinite,  // -inf there
  kPadding,         // a row for each element of the batch
  kClosedRow,       // causal, and a row that closes everything
};

struct Sizes {
  int64_t batch = 2, heads = 3, rows = 5, keys = 7, depth = 4, width = 6;
};

constexpr float kAlpha = 0.5f;

// Q, K, V, dY and the mask of all heads.
class Problem {
 public:
  Problem(const Sizes& sizes, Mask kind, bool side_by_side, uint32_t seed)
      : sizes_(sizes), side_by_side_(side_by_side), random_(seed) {
    const auto& [batch, heads, rows, keys, depth, width] = sizes;
    q = random_.Floats(batch * heads * rows * depth);
    k = random_.Floats(batch * heads * keys * depth);
    v = random_.Floats(batch * heads * keys * width);
    dy = random_.Floats(batch * heads * rows * width);
    MakeMask(kind);
  }

  // [batch, heads, rows, columns], or rows before heads.
  Shape ShapeOf(int64_t rows, int64_t columns) const {
    return side_by_side_ ? Shape{sizes_.batch, rows, sizes_.heads, columns}
                         : Shape{sizes_.batch, sizes_.heads, rows, columns};
  }
  size_t At(int64_t head, int64_t row, int64_t column, int64_t rows,
            int64_t columns) const {
    const int64_t b = head / sizes_.heads, h = head % sizes_.heads;
    const int64_t line = side_by_side_ ? (b * rows + row) * sizes_.heads + h
                                       : (b * sizes_.heads + h) * rows + row;
    return static_cast<size_t>(line * columns + column);
  }
  double MaskAt(int64_t head, int64_t row, int64_t column) const {
    if (mask.empty()) return 0;
    const int64_t b = head / sizes_.heads, h = head % sizes_.heads;
    int64_t at = mask_shape[0] == 1 ? 0 : b;
    at = at * mask_shape[1] + (mask_shape[1] == 1 ? 0 : h);
    at = at * mask_shape[2] + (mask_shape[2] == 1 ? 0 : row);
    return mask[static_cast<size_t>(at * sizes_.keys + column)];
  }

  KernelRunner Runner(const char* op) {
    KernelRunner runner(kInternal, op);
    runner.Set("alpha", kAlpha);
    if (side_by_side_) {
      for (const char* perm : {"permQ", "permK", "permV", "permY"}) {
        runner.Set(perm, std::vector<int64_t>{0, 2, 1, 3});
      }
    }
    const auto& [batch, heads, rows, keys, depth, width] = sizes_;
    if (std::string(op) == "AttentionGrad") {
      runner.Input(Tensor(ShapeOf(rows, width), dy.data()));
    }
    runner.Input(Tensor(ShapeOf(rows, depth), q.data()))
        .Input(Tensor(ShapeOf(keys, depth), k.data()))
        .Input(Tensor(ShapeOf(keys, width), v.data()));
    if (!mask.empty()) runner.Input(Tensor(mask_shape, mask.data()));
    return runner;
  }

  std::vector<float> q, k, v, dy, mask;
  Shape mask_shape;

 private:
  void MakeMask(Mask kind) {
    const auto& [batch, heads, rows, keys, depth, width] = sizes_;
    if (kind == Mask::kNone) return;
    mask_shape = Shape{1, 1, rows, keys};
    if (kind == Mask::kRandom) mask_shape = Shape{batch, heads, rows, keys};
    if (kind == Mask::kPadding) mask_shape = Shape{batch, 1, 1, keys};
    mask = random_.Floats(mask_shape.element_count());
    if (kind == Mask::kRandom) return;
    const float closed = kind == Mask::kCausalInfinite
                             ? -std::numeric_limits<float>::infinity()
                             : -1e9f;
    for (size_t i = 0; i < mask.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / keys;
      const auto column = static_cast<int64_t>(i) % keys;
      const bool close =
          kind == Mask::kPadding ? column >= keys - row - 1 : column > row;
      if (column > 0 && close) mask[i] = closed;
      if (kind == Mask::kClosedRow && row == rows / 2) mask[i] = closed;
    }
  }

  Sizes sizes_;
  bool side_by_side_;
  RandomValues random_;
};

struct Wanted {
  std::vector<double> y, dq, dk, dv;
};

// The formulas, head by head and row by row.
Wanted Compute(const Problem& x, const Sizes& sizes) {
  const auto& [batch, heads, rows, keys, depth, width] = sizes;
  Wanted wanted = {.y = std::vector<double>(x.dy.size()),
                   .dq = std::vector<double>(x.q.size()),
                   .dk = std::vector<double>(x.k.size()),
                   .dv = std::vector<double>(x.v.size())};
  std::vector<double> p(static_cast<size_t>(keys)), dp(p);
  for (int64_t head = 0; head < batch * heads; ++head) {
    for (int64_t i = 0; i < rows; ++i) {
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t l = 0; l < depth; ++l) {
          score += double{x.q[x.At(head, i, l, rows, depth)]} *
                   x.k[x.At(head, j, l, keys, depth)];
        }
        // In float, as the sum is: a row that is closed keeps no score.
        p[j] = static_cast<float>(kAlpha * score) +
               static_cast<float>(x.MaskAt(head, i, j));
        p[j] = static_cast<float>(p[j]);
        largest = std::max(largest, p[j]);
      }
      double sum = 0, dot = 0;
      for (double& e : p) sum += e = std::exp(e - largest);
      for (int64_t j = 0; j < keys; ++j) {
        p[j] /= sum;
        dp[j] = 0;
        for (int64_t l = 0; l < width; ++l) {
          const size_t at = x.At(head, i, l, rows, width);
          const size_t of_v = x.At(head, j, l, keys, width);
          wanted.y[at] += p[j] * x.v[of_v];
          wanted.dv[of_v] += p[j] * x.dy[at];
          dp[j] += double{x.dy[at]} * x.v[of_v];
        }
        dot += p[j] * dp[j];
      }
      for (int64_t j = 0; j < keys; ++j) {
        const double ds = kAlpha * p[j] * (dp[j] - dot);
        for (int64_t l = 0; l < depth; ++l) {
          const size_t of_q = x.At(head, i, l, rows, depth);
          const size_t of_k = x.At(head, j, l, keys, depth);
          wanted.dq[of_q] += ds * x.k[of_k];
          wanted.dk[of_k] += ds * x.q[of_q];
        }
      }
    }
  }
  return wanted;
}

void ExpectNear(const std::vector<float>& y,
                const std::vector<double>& wanted) {
  ASSERT_EQ(y.size(), wanted.size());
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << i;
  }
}

void Check(const Sizes& sizes, Mask mask, bool side_by_side, int threads) {
  SCOPED_TRACE(testing::Message()
               << sizes.batch << " x " << sizes.heads << " heads, "
               << sizes.rows << " rows, " << sizes.keys << " keys, "
               << sizes.depth << " deep, " << sizes.width << " wide, mask "
               << static_cast<int>(mask) << ", side by side " << side_by_side
               << ", threads " << threads);
  Problem x(sizes, mask, side_by_side, 7);
  const Wanted wanted = Compute(x, sizes);
  auto y = Nans(static_cast<int64_t>(wanted.y.size()));
  x.Runner("Attention")
      .Output(Tensor(x.ShapeOf(sizes.rows, sizes.width), y.data()))
      .Run(threads);
  ExpectNear(y, wanted.y);
  // Each gradient is right whichever of them are wanted.
  for (uint32_t bits = 1; bits < 8; ++bits) {
    SCOPED_TRACE(bits);
    auto dq = Nans(static_cast<int64_t>(wanted.dq.size()));
    auto dk = Nans(static_cast<int64_t>(wanted.dk.size()));
    auto dv = Nans(static_cast<int64_t>(wanted.dv.size()));
    const Tensor of_q(x.ShapeOf(sizes.rows, sizes.depth), dq.data());
    const Tensor of_k(x.ShapeOf(sizes.keys, sizes.depth), dk.data());
    const Tensor of_v(x.ShapeOf(sizes.keys, sizes.width), dv.data());
    x.Runner("AttentionGrad")
        .Output(bits & 1 ? of_q : Tensor())
        .Output(bits & 2 ? of_k : Tensor())
        .Output(bits & 4 ? of_v : Tensor())
        .Run(threads);
    if (bits & 1) ExpectNear(dq, wanted.dq);
    if (bits & 2) ExpectNear(dk, wanted.dk);
    if (bits & 4) ExpectNear(dv, wanted.dv);
  }
}

constexpr Mask kMasks[] = {Mask::kNone,    Mask::kRandom,
                           Mask::kCausal,  Mask::kCausalInfinite,
                           Mask::kPadding, Mask::kClosedRow};

TEST(AttentionTest, EveryMaskAndLayout) {
  for (const Mask mask : kMasks) {
    for (const bool side_by_side : {false, true}) {
      Check({}, mask, side_by_side, 1);
      // Several blocks of rows, and tails of vectors.
      Check({.batch = 1,
             .heads = 2,
             .rows = 133,
             .keys = 133,
             .depth = 17,
             .width = 35},
            mask, side_by_side, 2);
    }
  }
}

TEST(AttentionTest, FewerHeadsThanThreads) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal}) {
    for (const int64_t heads : {1, 3}) {
      Check({.batch = 1,
             .heads = heads,
             .rows = 260,
             .keys = 70,
             .depth = 8,
             .width = 5},
            mask, true, 5);
    }
  }
}

TEST(AttentionTest, OddSizes) {
  for (const int64_t keys : {1, 16, 33, 300}) {
    for (const int64_t rows : {1, 14, 65}) {
      Check({.batch = 1,
             .heads = 2,
             .rows = rows,
             .keys = keys,
             .depth = 1,
             .width = 1},
            Mask::kPadding, true, 1);
    }
  }
}

// The gradients of what takes no part are zero.
TEST(AttentionTest, WithoutRowsTheGradientsAreZero) {
  const Sizes sizes = {.rows = 0};
  Problem x(sizes, Mask::kNone, false, 1);
  auto dk = Nans(static_cast<int64_t>(x.k.size()));
  auto dv = Nans(static_cast<int64_t>(x.v.size()));
  x.Runner("AttentionGrad")
      .Output(Tensor())
      .Output(Tensor(x.ShapeOf(sizes.keys, sizes.depth), dk.data()))
      .Output(Tensor(x.ShapeOf(sizes.keys, sizes.width), dv.data()))
      .Run();
  EXPECT_EQ(dk, std::vector<float>(dk.size(), 0.0f));
  EXPECT_EQ(dv, std::vector<float>(dv.size(), 0.0f));
}

// A sum over no keys is zero.
TEST(AttentionTest, WithoutKeysTheResultIsZero) {
  const Sizes sizes = {.keys = 0};
  Problem x(sizes, Mask::kNone, true, 1);
  auto y = Nans(static_cast<int64_t>(x.dy.size()));
  auto dq = Nans(static_cast<int64_t>(x.q.size()));
  x.Runner("Attention")
      .Output(Tensor(x.ShapeOf(sizes.rows, sizes.width), y.data()))
      .Run();
  x.Runner("AttentionGrad")
      .Output(Tensor(x.ShapeOf(sizes.rows, sizes.depth), dq.data()))
      .Run();
  EXPECT_EQ(y, std::vector<float>(y.size(), 0.0f));
  EXPECT_EQ(dq, std::vector<float>(dq.size(), 0.0f));
}

TEST(AttentionTest, WithoutHeadsNothingHappens) {
  Check({.batch = 0}, Mask::kNone, false, 2);
  Check({.heads = 0}, Mask::kCausal, true, 1);
}

TEST(AttentionTest, ANanInTheMaskIsSeen) {
  Problem x({}, Mask::kCausal, false, 3);
  x.mask.back() = kNan;
  auto y = Nans(static_cast<int64_t>(x.dy.size()));
  std::fill(y.begin(), y.end(), 0.0f);
  x.Runner("Attention").Output(Tensor(x.ShapeOf(5, 6), y.data())).Run();
  EXPECT_TRUE(std::isnan(y.back()));
  EXPECT_FALSE(std::isnan(y.front()));
}

// Blocks of rows share nothing: how many threads there are changes no bit of
// Y and dQ.
TEST(AttentionTest, ThreadsChangeNoBitOfARow) {
  const Sizes sizes = {
      .batch = 1, .heads = 1, .rows = 200, .keys = 90, .depth = 8, .width = 8};
  Problem x(sizes, Mask::kCausal, false, 5);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    auto y = Nans(sizes.rows * sizes.width);
    auto dq = Nans(sizes.rows * sizes.depth);
    x.Runner("Attention")
        .Output(Tensor(x.ShapeOf(200, 8), y.data()))
        .Run(threads);
    x.Runner("AttentionGrad")
        .Output(Tensor(x.ShapeOf(200, 8), dq.data()))
        .Run(threads);
    y.insert(y.end(), dq.begin(), dq.end());
    results.push_back(std::move(y));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace strop
