// SPDX-License-Identifier: Apache-2.0
//
// Kernels do not write zeros over zeros. The results are those of writing
// everything, and rows of tables that no batch names take no memory.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/resident_bytes.h"
#include "providers/kernel_runner.h"

namespace strop {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

using Floats = std::vector<float>;

Tensor TensorOf(Floats& values) {
  return Tensor(Shape{static_cast<int64_t>(values.size())}, values.data());
}

// Equal bits, or both NaN: which NaN comes of two is the compiler's choice.
void ExpectSame(const Floats& got, const Floats& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << " " << i << ": " << got[i] << ", not " << want[i];
  }
}

// The values with a one after each: no vector of them is zero.
Floats WithOnes(const Floats& values) {
  Floats result;
  for (const float value : values) {
    result.push_back(value);
    result.push_back(1);
  }
  return result;
}

Floats WithoutOnes(const Floats& values) {
  Floats result;
  for (size_t i = 0; i < values.size(); i += 2) result.push_back(values[i]);
  return result;
}

// Weights with gradients and moments.
struct Table {
  static constexpr size_t kSize = 4096 + 1000 + 7;

  Floats w, g, m, v;

  // Gradients and moments are zero but for single elements, in every lane.
  static Table MakeHard() {
    RandomValues random(5);
    Table table = {random.Floats(kSize), Floats(kSize), Floats(kSize),
                   Floats(kSize)};
    const float weights[] = {0.f, -0.f, kNan, kInfinity, -kInfinity, kDenormal};
    for (size_t i = 0; i < kSize; i += 3) table.w[i] = weights[i / 3 % 6];
    Floats* const others[] = {&table.g, &table.m, &table.v};
    const float values[] = {-0.f, kNan, kDenormal, 2.f};
    size_t count = 0;
    for (size_t i = 50; i < kSize; i += 37, ++count) {
      (*others[count % 3])[i] = values[count / 3 % 4];
    }
    return table;
  }

  Table Apart() const {
    return {WithOnes(w), WithOnes(g), WithOnes(m), WithOnes(v)};
  }
};

void ExpectSame(const Table& got, const Table& want) {
  ExpectSame(got.w, WithoutOnes(want.w), "w");
  ExpectSame(got.g, WithoutOnes(want.g), "g");
  ExpectSame(got.m, WithoutOnes(want.m), "m");
  ExpectSame(got.v, WithoutOnes(want.v), "v");
}

TEST(UntouchedZerosTest, AdamWComputesTheSame) {
  const auto run = [](Table& table, int64_t mode, float decay, float epsilon,
                      float alpha, float rate) {
    int64_t step = 3;
    bool updated = false;
    KernelRunner(kMicrosoft, "AdamWOptimizer")
        .Set("adam_mode", mode)
        .Set("weight_decay", decay)
        .Set("epsilon", epsilon)
        .Set("alpha", alpha)
        .Input(Tensor(Shape{1}, &rate))
        .Input(Tensor(Shape{1}, &step))
        .List({TensorOf(table.w)})
        .List({TensorOf(table.g)})
        .List({TensorOf(table.m)})
        .List({TensorOf(table.v)})
        .LeaveOut()
        .Output(Tensor(Shape{1}, &updated))
        .Run();
  };
  for (const int64_t mode : {0, 1}) {
    for (const float decay : {0.f, 0.01f, -0.01f}) {
      for (const float epsilon : {0.f, 1e-8f, -1e-8f}) {
        for (const float alpha : {0.9f, 0.f, -0.9f, kNan}) {
          for (const float rate : {0.1f, 0.f, -0.1f, kInfinity, kNan}) {
            SCOPED_TRACE(testing::Message()
                         << "mode " << mode << ", decay " << decay
                         << ", epsilon " << epsilon << ", alpha " << alpha
                         << ", rate " << rate);
            Table got = Table::MakeHard();
            Table want = got.Apart();
            run(got, mode, decay, epsilon, alpha, rate);
            run(want, mode, decay, epsilon, alpha, rate);
            ExpectSame(got, want);
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(UntouchedZerosTest, SgdComputesTheSame) {
  const auto run = [](Table& table, float rate) {
    KernelRunner(kMicrosoft, "SGDOptimizerV2")
        .Input(Tensor(Shape{}, &rate))
        .List({TensorOf(table.w)})
        .List({TensorOf(table.g)})
        .Run();
  };
  for (float rate : {0.1f, 0.f, -0.f, -0.1f, kInfinity, kNan}) {
    SCOPED_TRACE(rate);
    Table got = Table::MakeHard();
    Table want = got.Apart();
    run(got, rate);
    run(want, rate);
    ExpectSame(got, want);
  }
}

// NaN in a gradient makes the norm NaN, which then is everywhere.
TEST(UntouchedZerosTest, ClippingComputesTheSame) {
  for (const float in_place_of_nan : {1.f, kNan}) {
    for (const float max_norm : {1e-3f, 0.f, -1e-3f}) {
      SCOPED_TRACE(testing::Message() << in_place_of_nan << ", " << max_norm);
      Table got = Table::MakeHard();
      double sum = 0;
      for (float& x : got.g) {
        if (std::isnan(x)) x = in_place_of_nan;
        sum += double{x} * x;
      }
      const float norm = static_cast<float>(std::sqrt(sum));
      const float factor = max_norm / (norm + 1e-6f);
      Floats want = got.g;
      for (float& x : want) x *= factor;
      KernelRunner(kMicrosoft, "InplaceClipGradNorm")
          .Set("max_norm", max_norm)
          .List({TensorOf(got.g)})
          .Run();
      ExpectSame(got.g, want, "g");
    }
  }
}

// Adds rows of ones to a table of `columns` columns.
void AddRows(const Tensor& table, std::vector<int64_t> rows, bool overwrite,
             int threads = 1) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t columns = table.shape()[1];
  Floats ones(static_cast<size_t>(count * columns), 1.f);
  bool updated = false;
  KernelRunner(kInternal, "GatherGradAccumulate")
      .Input(Tensor(Shape{count}, rows.data()))
      .Input(Tensor(Shape{count, columns}, ones.data()))
      .Input(table)
      .Input(Tensor(Shape{1}, &overwrite))
      .Output(Tensor(Shape{1}, &updated))
      .Run(threads);
}

TEST(UntouchedZerosTest, ATableIsOverwrittenWhateverItHeld) {
  RandomValues random(6);
  for (const int64_t columns : {3, 64, 256, 300}) {
    for (const int threads : {1, 2, 3}) {
      const int64_t rows = 41;
      Floats want(static_cast<size_t>(rows * columns));
      for (int64_t i = 0; i < columns; ++i) {
        want[static_cast<size_t>(7 * columns + i)] = 2;
        want[static_cast<size_t>(40 * columns + i)] = 1;
      }
      Floats sparse(want.size());
      sparse[5] = kNan;
      sparse[sparse.size() / 2] = 3;
      sparse.back() = -0.f;
      for (Floats table :
           {Nans(rows * columns), random.Floats(rows * columns), sparse,
            Floats(want.size(), -0.f), Floats(want.size())}) {
        AddRows(Tensor(Shape{rows, columns}, table.data()), {7, -1, 7},
                /*overwrite=*/true, threads);
        ExpectSame(table, want, "table");
      }
    }
  }
}

TEST(UntouchedZerosTest, RowsThatNoBatchNamesTakeNoMemory) {
  constexpr int64_t kRows = 1 << 16, kColumns = 512;
  const Shape shape = {kRows, kColumns};
  const size_t bytes = size_t{kRows * kColumns * sizeof(float)};
  const auto before = ResidentBytes();
  if (!before) GTEST_SKIP() << "this system does not tell resident memory";

  // Weights of zero, so that theirs would show too.
  const OwnedTensor w(DataType::kFloat32, shape), g(DataType::kFloat32, shape),
      m(DataType::kFloat32, shape), v(DataType::kFloat32, shape);
  float rate = 0.1f;
  for (int64_t step = 1; step <= 3; ++step) {
    AddRows(g, {1, 1000, 60'000}, /*overwrite=*/true);
    KernelRunner(kMicrosoft, "InplaceClipGradNorm")
        .Set("max_norm", 1.f)
        .List({g})
        .Run();
    bool updated = false;
    KernelRunner(kMicrosoft, "AdamWOptimizer")
        .Set("weight_decay", 0.f)
        .Input(Tensor(Shape{1}, &rate))
        .Input(Tensor(Shape{1}, &step))
        .List({w})
        .List({g})
        .List({m})
        .List({v})
        .LeaveOut()
        .Output(Tensor(Shape{1}, &updated))
        .Run();
    KernelRunner(kMicrosoft, "SGDOptimizerV2")
        .Input(Tensor(Shape{}, &rate))
        .List({w})
        .List({g})
        .Run();
  }
  EXPECT_LT(w.values<float>()[1000 * kColumns], 0);
  EXPECT_LT(*ResidentBytes(), *before + bytes / 4);  // of 4 * bytes
}

}  // namespace
}  // namespace strop
