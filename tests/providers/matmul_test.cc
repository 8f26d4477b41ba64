// SPDX-License-Identifier: Apache-2.0
//
// The kernels built on Gemm; gemm_test.cc checks the arithmetic itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "providers/kernel_runner.h"

namespace strop {
namespace {

// alpha * op(A) * op(B) of matrices, in double.
std::vector<double> Product(const float* a, bool trans_a, const float* b,
                            bool trans_b, int64_t m, int64_t n, int64_t k,
                            double alpha) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += double{trans_a ? a[l * m + i] : a[i * k + l]} *
               (trans_b ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = alpha * sum;
    }
  }
  return c;
}

void ExpectNear(const std::vector<float>& y,
                const std::vector<double>& wanted) {
  ASSERT_EQ(y.size(), wanted.size());
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << i;
  }
}

Shape MatrixShape(bool transposed, int64_t rows, int64_t columns) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

struct Matrices {
  Matrices(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
           RandomValues& random)
      : a(random.Floats(m * k)),
        b(random.Floats(k * n)),
        a_shape(MatrixShape(trans_a, m, k)),
        b_shape(MatrixShape(trans_b, k, n)) {}
  std::vector<float> a, b;
  Shape a_shape, b_shape;
};

TEST(GemmOpTest, EveryFormOfC) {
  RandomValues random(1);
  const int64_t m = 5;
  const int64_t n = 19;
  const int64_t k = 33;
  const Shape forms[] = {{}, {1}, {1, 1}, {n}, {1, n}, {m, 1}, {m, n}};
  for (uint32_t bits = 0; bits < 8; ++bits) {
    const bool trans_a = bits & 1;
    const bool trans_b = bits & 2;
    const float beta = bits & 4 ? 1.0f : -0.5f;
    const Matrices x(m, n, k, trans_a, trans_b, random);
    for (const Shape& form : forms) {
      SCOPED_TRACE(testing::Message() << form.ToString() << " " << bits);
      const auto c = random.Floats(form.element_count());
      auto y = Nans(m * n);
      KernelRunner(kOnnx, "Gemm")
          .Set("transA", int64_t{trans_a})
          .Set("transB", int64_t{trans_b})
          .Set("alpha", 1.5f)
          .Set("beta", beta)
          .Input(Tensor(x.a_shape, x.a.data()))
          .Input(Tensor(x.b_shape, x.b.data()))
          .Input(Tensor(form, c.data()))
          .Output(Tensor(Shape{m, n}, y.data()))
          .Run();
      auto wanted =
          Product(x.a.data(), trans_a, x.b.data(), trans_b, m, n, k, 1.5);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const size_t rank = form.rank();
          const int64_t row = rank == 2 && form[0] > 1 ? i : 0;
          const int64_t column = rank > 0 && form[rank - 1] > 1 ? j : 0;
          const int64_t width = rank > 0 ? form[rank - 1] : 1;
          wanted[i * n + j] += beta * c[row * width + column];
        }
      }
      ExpectNear(y, wanted);
    }
  }
}

TEST(GemmOpTest, WithoutC) {
  RandomValues random(2);
  const Matrices x(3, 4, 0, false, false, random);
  auto y = Nans(12);
  KernelRunner(kOnnx, "Gemm")
      .Input(Tensor(x.a_shape, x.a.data()))
      .Input(Tensor(x.b_shape, x.b.data()))
      .Output(Tensor(Shape{3, 4}, y.data()))
      .Run();
  EXPECT_EQ(y, std::vector<float>(12, 0.0f));
}

TEST(FusedGemmTest, BiasAndActivation) {
  RandomValues random(3);
  for (uint32_t bits = 0; bits < 16; ++bits) {
    const bool trans_a = bits & 1;
    const bool trans_b = bits & 2;
    const bool has_bias = bits & 4;
    const bool relu = bits & 8;
    for (const auto [m, n, k] : {std::array<int64_t, 3>{1, 64, 32},
                                 {1, 1, 32},
                                 {33, 1, 20},
                                 {17, 10, 40},
                                 {120, 100, 90}}) {
      const Matrices x(m, n, k, trans_a, trans_b, random);
      const auto bias = random.Floats(n);
      auto y = Nans(m * n);
      KernelRunner runner(kInternal, "Gemm");
      runner.Set("transA", int64_t{trans_a})
          .Set("transB", int64_t{trans_b})
          .Set("activation", std::string(relu ? "Relu" : ""))
          .Input(Tensor(x.a_shape, x.a.data()))
          .Input(Tensor(x.b_shape, x.b.data()));
      if (has_bias) runner.Input(Tensor(Shape{n}, bias.data()));
      runner.Output(Tensor(Shape{m, n}, y.data())).Run(2);
      auto wanted =
          Product(x.a.data(), trans_a, x.b.data(), trans_b, m, n, k, 1);
      for (int64_t i = 0; i < m * n; ++i) {
        if (has_bias) wanted[i] += bias[i % n];
        if (relu) wanted[i] = std::max(wanted[i], 0.0);
      }
      ExpectNear(y, wanted);
    }
  }
}

TEST(GemmAccumulateTest, AddsOrOverwrites) {
  RandomValues random(4);
  for (bool overwrite : {false, true}) {
    for (const int64_t k : {0, 1, 32, 500}) {
      const int64_t m = 30;
      const int64_t n = 50;
      const Matrices x(m, n, k, true, false, random);
      auto buffer = overwrite ? Nans(m * n) : random.Floats(m * n);
      auto wanted = Product(x.a.data(), true, x.b.data(), false, m, n, k, 0.5);
      for (int64_t i = 0; i < m * n && !overwrite; ++i) {
        wanted[i] += buffer[i];
      }
      const Tensor tensor(Shape{m, n}, buffer.data());
      KernelRunner(kInternal, "GemmAccumulate")
          .Set("transA", int64_t{1})
          .Set("alpha", 0.5f)
          .Input(Tensor(x.a_shape, x.a.data()))
          .Input(Tensor(x.b_shape, x.b.data()))
          .Input(tensor)
          .Input(Tensor(Shape{1}, &overwrite))
          .Output(tensor)
          .Run(2);
      ExpectNear(buffer, wanted);
    }
  }
}

// Batch axes broadcast: element `index` of the result's batch in `shape`.
int64_t BatchIndex(const Shape& shape, const Shape& y, int64_t index) {
  int64_t at = 0;
  int64_t step = 1;
  for (size_t i = 2; i < y.rank(); ++i) {
    const int64_t size = y[y.rank() - 1 - i];
    const int64_t position = index % size;
    index /= size;
    if (i >= shape.rank()) continue;
    const int64_t own = shape[shape.rank() - 1 - i];
    if (own != 1) at += position * step;
    step *= own;
  }
  return at;
}

TEST(MatMulTest, BatchesBroadcast) {
  RandomValues random(5);
  struct Batches {
    std::vector<int64_t> a, b, y;
  };
  const Batches batches[] = {
      {{}, {}, {}},          {{3}, {}, {3}},           {{}, {3}, {3}},
      {{3}, {3}, {3}},       {{2, 3}, {2, 3}, {2, 3}}, {{2, 1}, {3}, {2, 3}},
      {{2, 3}, {1}, {2, 3}}, {{1, 3}, {2, 1}, {2, 3}}, {{0}, {0}, {0}},
  };
  const auto with = [](std::vector<int64_t> dims, int64_t rows,
                       int64_t columns) {
    dims.push_back(rows);
    dims.push_back(columns);
    return Shape(dims);
  };
  for (const Batches& batch : batches) {
    for (uint32_t bits = 0; bits < 4; ++bits) {
      const bool trans_a = bits & 1;
      const bool trans_b = bits & 2;
      for (const auto [m, n, k] : {std::array<int64_t, 3>{1, 7, 5},
                                   {12, 20, 16},
                                   {90, 70, 60},
                                   {4, 4, 0}}) {
        const Shape a_shape =
            trans_a ? with(batch.a, k, m) : with(batch.a, m, k);
        const Shape b_shape =
            trans_b ? with(batch.b, n, k) : with(batch.b, k, n);
        const Shape y_shape = with(batch.y, m, n);
        SCOPED_TRACE(testing::Message()
                     << a_shape.ToString() << " x " << b_shape.ToString());
        const auto a = random.Floats(a_shape.element_count());
        const auto b = random.Floats(b_shape.element_count());
        for (const int threads : {1, 2, 5}) {
          auto y = Nans(y_shape.element_count());
          KernelRunner runner(bits == 0 ? kOnnx : kMicrosoft,
                              bits == 0 ? "MatMul" : "FusedMatMul");
          if (bits != 0) {
            runner.Set("transA", int64_t{trans_a})
                .Set("transB", int64_t{trans_b})
                .Set("alpha", 0.25f);
          }
          runner.Input(Tensor(a_shape, a.data()))
              .Input(Tensor(b_shape, b.data()))
              .Output(Tensor(y_shape, y.data()))
              .Run(threads);
          std::vector<double> wanted;
          const int64_t count = y_shape.element_count(0, y_shape.rank() - 2);
          for (int64_t i = 0; i < count; ++i) {
            const auto part = Product(
                a.data() + BatchIndex(a_shape, y_shape, i) * m * k, trans_a,
                b.data() + BatchIndex(b_shape, y_shape, i) * k * n, trans_b, m,
                n, k, bits == 0 ? 1 : 0.25);
            wanted.insert(wanted.end(), part.begin(), part.end());
          }
          ExpectNear(y, wanted);
        }
      }
    }
  }
}

TEST(MatMulTest, SaysWhyItDeclines) {
  std::vector<float> x(4);
  EXPECT_EQ(KernelRunner(kOnnx, "MatMul")
                .Input(Tensor(Shape{2, 2}, x.data()))
                .Input(Tensor(Shape{2}, x.data()))
                .Output(Tensor(Shape{2}, x.data()))
                .Choose(*CpuExecutionProvider())
                .reason,
            "gemm.matmul: a vector operand");
}

}  // namespace
}  // namespace strop
