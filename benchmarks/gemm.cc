// SPDX-License-Identifier: Apache-2.0
//
// Matrix products on one thread, ours and OpenBLAS's where it is installed.
// OpenBLAS may not know a new processor and fall back to very old code: set
// OPENBLAS_CORETYPE (SkylakeX, Haswell, ...) to compare like with like, and
// OPENBLAS_NUM_THREADS=1. On a machine with other work, run with
// --benchmark_enable_random_interleaving and several repetitions: the two
// sides measured one after the other differ by the load, not by the code.
#include "providers/cpu/gemm/gemm.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#ifdef STROP_WITH_OPENBLAS
#include <cblas.h>
#endif

namespace strop {
namespace {

// m, n, k, and whether A and B are stored transposed. The linear layers of
// small models at batch 1 and 32 to 128, forward (NT), input gradient (NN)
// and weight gradient (TN); then squares.
void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"m", "n", "k", "ta", "tb"});
  const struct {
    int64_t batch, out, in;
  } layers[] = {{1, 64, 32},    {1, 1, 32},       {1, 4096, 4096},
                {32, 64, 32},   {64, 128, 784},   {128, 10, 128},
                {32, 768, 768}, {128, 3072, 768}, {128, 768, 3072}};
  for (const auto& [batch, out, in] : layers) {
    benchmark->Args({batch, out, in, 0, 1});
    benchmark->Args({batch, in, out, 0, 0});
    benchmark->Args({out, in, batch, 1, 0});
  }
  for (const int64_t n : {256, 512, 1024}) {
    benchmark->Args({n, n, n, 0, 0});
  }
}

struct Matrices {
  explicit Matrices(const benchmark::State& state)
      : problem(GemmProblem::Dense(state.range(3) != 0, state.range(4) != 0,
                                   state.range(0), state.range(1),
                                   state.range(2))),
        a(Random(problem.m * problem.k)),
        b(Random(problem.k * problem.n)),
        c(static_cast<size_t>(problem.m * problem.n)) {}

  static std::vector<float> Random(int64_t n) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal(generator);
    return values;
  }

  void Report(benchmark::State& state) const {
    const double flops = 2.0 * static_cast<double>(problem.m) *
                         static_cast<double>(problem.n) *
                         static_cast<double>(problem.k);
    state.counters["flops"] = benchmark::Counter(
        flops, benchmark::Counter::kIsIterationInvariantRate);
  }

  GemmProblem problem;
  std::vector<float> a, b, c;
};

void BM_Strop(benchmark::State& state) {
  Matrices x(state);
  const Gemm gemm(x.problem, 1);
  std::vector<std::byte> memory(gemm.scratch_bytes() + 64);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  std::byte* scratch = memory.data() + (64 - address % 64) % 64;
  for (auto _ : state) {
    gemm.RunSerial({.a = x.a.data(), .b = x.b.data(), .c = x.c.data()},
                   scratch);
    benchmark::ClobberMemory();
  }
  x.Report(state);
}
BENCHMARK(BM_Strop)->Apply(Shapes);

#ifdef STROP_WITH_OPENBLAS
void BM_OpenBlas(benchmark::State& state) {
  Matrices x(state);
  const GemmProblem& p = x.problem;
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, p.trans_a ? CblasTrans : CblasNoTrans,
                p.trans_b ? CblasTrans : CblasNoTrans, static_cast<int>(p.m),
                static_cast<int>(p.n), static_cast<int>(p.k), 1, x.a.data(),
                static_cast<int>(p.lda), x.b.data(), static_cast<int>(p.ldb), 0,
                x.c.data(), static_cast<int>(p.ldc));
    benchmark::ClobberMemory();
  }
  x.Report(state);
}
BENCHMARK(BM_OpenBlas)->Apply(Shapes);
#endif

}  // namespace
}  // namespace strop

BENCHMARK_MAIN();
