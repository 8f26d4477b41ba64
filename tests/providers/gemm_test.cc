// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "providers/cpu/gemm/packed_gemm.h"

namespace strop {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomValues(std::mt19937& generator, int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

// 64-byte aligned memory, as a plan's scratch is.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes + 64) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> bytes_;
};

struct GemmCase {
  GemmProblem problem;
  bool accumulate = false;
  bool bias = false;
  bool relu = false;
  int num_threads = 1;
};

// Runs the case on random matrices (what is overwritten holds NaN before)
// and compares with a plain loop in double.
void Check(const GemmCase& test, std::mt19937& generator) {
  const GemmProblem& p = test.problem;
  SCOPED_TRACE(testing::Message()
               << (p.trans_a ? "T" : "N") << (p.trans_b ? "T" : "N") << " m "
               << p.m << " n " << p.n << " k " << p.k << " lda " << p.lda
               << " ldb " << p.ldb << " ldc " << p.ldc << " alpha " << p.alpha
               << " accumulate " << test.accumulate << " bias " << test.bias
               << " relu " << test.relu << " threads " << test.num_threads);
  const auto a = RandomValues(generator, p.lda * (p.trans_a ? p.k : p.m));
  const auto b = RandomValues(generator, p.ldb * (p.trans_b ? p.n : p.k));
  const auto bias = RandomValues(generator, p.n);
  const auto before = RandomValues(generator, p.ldc * p.m);
  auto c = before;
  if (!test.accumulate) {
    for (int64_t i = 0; i < p.m; ++i) {
      std::fill_n(c.begin() + i * p.ldc, p.n, kNan);
    }
  }

  const Gemm gemm(p, test.num_threads);
  Scratch scratch(gemm.scratch_bytes());
  const GemmOperands operands = {.a = a.data(),
                                 .b = b.data(),
                                 .c = c.data(),
                                 .accumulate = test.accumulate,
                                 .bias = test.bias ? bias.data() : nullptr,
                                 .relu = test.relu};
  for (int64_t i = gemm.tile_count() - 1; i >= 0; --i) {
    gemm.RunTile(i, operands, scratch.data() + i * gemm.tile_scratch_bytes());
  }

  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.ldc; ++j) {
      const size_t at = i * p.ldc + j;
      if (j >= p.n) {  // between the rows nothing is written
        ASSERT_EQ(c[at], before[at]);
        continue;
      }
      double wanted = 0;
      double scale = 1;
      for (int64_t l = 0; l < p.k; ++l) {
        const double product =
            static_cast<double>(p.trans_a ? a[l * p.lda + i]
                                          : a[i * p.lda + l]) *
            (p.trans_b ? b[j * p.ldb + l] : b[l * p.ldb + j]);
        wanted += product;
        scale += std::abs(product);
      }
      wanted *= p.alpha;
      if (test.accumulate) wanted += before[at];
      if (test.bias) wanted += bias[j];
      if (test.relu) wanted = std::max(wanted, 0.0);
      ASSERT_NEAR(c[at], wanted, 1e-6 * scale) << "at " << i << ", " << j;
    }
  }
}

TEST(GemmTest, AgreesWithPlainLoopOverManyShapes) {
  std::mt19937 generator(1);
  const int64_t sizes[] = {0, 1, 2, 3, 5, 8, 13, 16, 17, 29, 32, 33, 57, 65};
  const auto pick = [&] { return sizes[generator() % std::size(sizes)]; };
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(generator());
    Check({.problem = GemmProblem::Dense(bits & 1, bits & 2, pick(), pick(),
                                         pick(), bits & 4 ? 1.0f : -0.75f),
           .accumulate = (bits & 8) != 0,
           .bias = (bits & 16) != 0,
           .relu = (bits & 32) != 0,
           .num_threads = bits & 64 ? 3 : 1},
          generator);
  }
}

TEST(GemmTest, AgreesWithPlainLoopAcrossBlocks) {
  std::mt19937 generator(2);
  const struct {
    int64_t m, n, k;
  } sizes[] = {{70, 90, 801}, {100, 1400, 40}, {3, 700, 500},
               {200, 33, 1},  {1, 130, 900},   {1, 5000, 21},
               {90, 1, 900},  {1000, 70, 300}, {20, 2200, 30}};
  for (const auto& size : sizes) {
    for (uint32_t bits = 0; bits < 8; ++bits) {
      Check({.problem =
                 GemmProblem::Dense(bits & 1, bits & 2, size.m, size.n, size.k),
             .accumulate = (bits & 4) != 0,
             .bias = true,
             .relu = true,
             .num_threads = 2},
            generator);
    }
  }
}

TEST(GemmTest, KeepsToRowsOfALargerMatrix) {
  std::mt19937 generator(3);
  for (uint32_t bits = 0; bits < 4; ++bits) {
    for (const int64_t n : {1, 7, 32, 45}) {
      GemmProblem problem = GemmProblem::Dense(bits & 1, bits & 2, 19, n, 21);
      problem.lda += 3;
      problem.ldb += 5;
      problem.ldc += 2;
      Check({.problem = problem, .bias = true}, generator);
    }
  }
}

TEST(GemmTest, ThreadCountDoesNotChangeBits) {
  std::mt19937 generator(4);
  const GemmProblem problem = GemmProblem::Dense(false, true, 150, 170, 500);
  const auto a = RandomValues(generator, problem.m * problem.k);
  const auto b = RandomValues(generator, problem.n * problem.k);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 4}) {
    const Gemm gemm(problem, threads);
    EXPECT_EQ(gemm.tile_count(), threads);
    std::vector<float> c(problem.m * problem.n, kNan);
    Scratch scratch(gemm.scratch_bytes());
    gemm.RunSerial({.a = a.data(), .b = b.data(), .c = c.data()},
                   scratch.data());
    if (first.empty()) first = c;
    EXPECT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

TEST(GemmTest, ReluLetsNanThrough) {
  const float a[] = {kNan, -1};
  const float b[] = {1, 2, 3};
  float c[6] = {};
  const Gemm gemm(GemmProblem::Dense(false, false, 2, 3, 1), 1);
  Scratch scratch(gemm.scratch_bytes());
  gemm.RunSerial({.a = a, .b = b, .c = c, .relu = true}, scratch.data());
  EXPECT_TRUE(std::isnan(c[0]) && std::isnan(c[1]) && std::isnan(c[2]));
  EXPECT_EQ(c[3], 0);
}

// A B that is packed once, for any number of rows.
struct PackedCase {
  bool trans_a = false, trans_b = false, accumulate = false;
  bool packs_used_k = false;  // and not the rest of k
  int64_t m = 0, n = 0, k = 0;
  // Of n and k, what is used.
  int64_t used_n = 0, used_k = 0;
  float alpha = 1;
};

void CheckPacked(const PackedCase& x, std::mt19937& generator) {
  SCOPED_TRACE(testing::Message()
               << (x.trans_a ? "T" : "N") << (x.trans_b ? "T" : "N") << " m "
               << x.m << " n " << x.used_n << " of " << x.n << " k " << x.used_k
               << " of " << x.k << " alpha " << x.alpha << " accumulate "
               << x.accumulate);
  const int64_t lda = (x.trans_a ? x.m : x.k) + 3;
  const int64_t ldb = (x.trans_b ? x.k : x.n) + 2, ldc = x.n + 5;
  const auto a = RandomValues(generator, lda * (x.trans_a ? x.k : x.m));
  const auto b = RandomValues(generator, ldb * (x.trans_b ? x.n : x.k));
  const auto before = RandomValues(generator, x.m * ldc);
  auto c = before;
  for (int64_t i = 0; i < x.m && !x.accumulate; ++i) {
    std::fill_n(c.begin() + i * ldc, x.used_n, kNan);
  }

  const PackedGemm gemm(x.trans_b, x.n, x.k, ldb);
  Scratch packed(gemm.packed_bytes());
  for (int64_t i = gemm.panel_count() - 1; i >= 0; --i) {
    gemm.PackPanels(b.data(), i, i + 1, packed.data(),
                    x.packs_used_k ? x.used_k : kAllOfB);
  }
  gemm.Run({.m = x.m,
            .n = x.used_n,
            .k = x.used_k,
            .alpha = x.alpha,
            .a = a.data(),
            .a_row = x.trans_a ? 1 : lda,
            .a_k = x.trans_a ? lda : 1,
            .packed_b = packed.data(),
            .c = c.data(),
            .ldc = ldc,
            .accumulate = x.accumulate});

  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      const size_t at = i * ldc + j;
      if (j >= x.used_n) {
        ASSERT_EQ(c[at], before[at]);
        continue;
      }
      double wanted = x.accumulate ? before[at] : 0;
      double scale = 1;
      for (int64_t l = 0; l < x.used_k; ++l) {
        const double product =
            x.alpha *
            static_cast<double>(x.trans_a ? a[l * lda + i] : a[i * lda + l]) *
            (x.trans_b ? b[j * ldb + l] : b[l * ldb + j]);
        wanted += product;
        scale += std::abs(product);
      }
      ASSERT_NEAR(c[at], wanted, 1e-6 * scale) << "at " << i << ", " << j;
    }
  }
}

PackedCase FromBits(uint32_t bits, int64_t m, int64_t n, int64_t k) {
  return {.trans_a = (bits & 1) != 0,
          .trans_b = (bits & 2) != 0,
          .accumulate = (bits & 4) != 0,
          .packs_used_k = (bits & 32) != 0,
          .m = m,
          .n = n,
          .k = k,
          .used_n = n,
          .used_k = k,
          .alpha = bits & 8 ? 0.5f : 1.0f};
}

TEST(PackedGemmTest, AgreesWithPlainLoop) {
  std::mt19937 generator(5);
  const int64_t sizes[] = {0, 1, 2, 5, 13, 14, 15, 16, 17, 29, 32, 33, 65};
  const auto pick = [&] { return sizes[generator() % std::size(sizes)]; };
  for (int i = 0; i < 500 && !testing::Test::HasFailure(); ++i) {
    const auto bits = static_cast<uint32_t>(generator());
    PackedCase x = FromBits(bits, pick(), pick(), pick());
    if (bits & 16) {
      x.used_n = std::min(x.n, pick());
      x.used_k = std::min(x.k, pick());
    }
    CheckPacked(x, generator);
  }
}

TEST(PackedGemmTest, AgreesWithPlainLoopAcrossBlocks) {
  std::mt19937 generator(6);
  for (uint32_t bits = 0; bits < 16; ++bits) {
    PackedCase x = FromBits(bits, 17, 70, 801);
    CheckPacked(x, generator);
    x.used_n = 33;
    for (const int64_t k : {100, 300, 799}) {
      x.used_k = k;
      x.packs_used_k = !x.packs_used_k;
      CheckPacked(x, generator);
    }
  }
}

}  // namespace
}  // namespace strop
