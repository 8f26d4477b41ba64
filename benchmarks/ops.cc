// SPDX-License-Identifier: Apache-2.0
//
// Every op on its own, over the cases that the tests use. Names are
//
//   SIZE/OP[/WHAT IS SPECIAL]/TYPE/KERNEL/real_time
//
// SIZE is `real` for the cases with the sizes of models and `small` for all
// others, OP begins with its domain where that is not ONNX's own, and KERNEL
// is the one that a plan takes, or `reference`:
//
//   bench_ops --benchmark_filter='^real/Conv/'      one op
//   bench_ops --benchmark_filter='/gemm/'           one kernel
//   bench_ops --threads=2 --benchmark_filter='^real/'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "autodiff/real_size_cases.h"
#include "base/thread_pool.h"
#include "bound_kernel.h"
#include "ops/op_runner.h"
#include "strop/error.h"

namespace strop {
namespace {

struct Subject {
  const OpCase* op_case;
  DataType type;
  bool is_reference;
};

KernelChoice Choose(OpRun& run, bool is_reference) {
  return is_reference ? run.ChooseReference()
                      : run.Choose(*CpuExecutionProvider());
}

void Measure(benchmark::State& state, const Subject& subject,
             ThreadPool& pool) {
  OpRun run(*subject.op_case, subject.type);
  run.set_threads(&pool, pool.num_threads());
  BoundKernel kernel(run, Choose(run, subject.is_reference));
  for (auto _ : state) {
    kernel.Run();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kernel.bytes());
  if (kernel.flops() > 0) {
    state.counters["flops"] = benchmark::Counter(
        kernel.flops(), benchmark::Counter::kIsIterationInvariantRate);
  }
}

// Registers the kernel, if there is one.
void Register(const std::string& prefix, const Subject& subject,
              ThreadPool& pool) {
  OpRun run(*subject.op_case, subject.type);
  run.set_threads(&pool, pool.num_threads());
  const KernelChoice choice = Choose(run, subject.is_reference);
  if (choice.kernel == nullptr) return;
  const std::string name =
      prefix + "/" + (subject.is_reference ? "reference" : choice.name);
  benchmark::RegisterBenchmark(name.c_str(),
                               [subject, &pool](benchmark::State& state) {
                                 Measure(state, subject, pool);
                               })
      // Threads of ours are no part of this thread's processor time.
      ->UseRealTime();
}

// float32 where the case knows it.
DataType TypeOf(const OpCase& op_case) {
  const auto& types = op_case.types;
  return std::ranges::find(types, DataType::kFloat32) != types.end()
             ? DataType::kFloat32
             : types[0];
}

void RegisterAll(const std::string& size, const std::vector<OpCase>& cases,
                 ThreadPool& pool) {
  for (const OpCase& op_case : cases) {
    const DataType type = TypeOf(op_case);
    std::string name = size + "/";
    if (!op_case.domain.empty()) name += op_case.domain + ":";
    name += op_case.name + "/" + DataTypeName(type);
    for (const bool is_reference : {false, true})
      Register(name, {&op_case, type, is_reference}, pool);
  }
}

// Takes --threads=N out of the arguments.
int TakeThreads(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--threads=";
  int threads = 1, kept = 0;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(kFlag)) {
      threads = std::max(1, std::atoi(argv[i] + kFlag.size()));
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return threads;
}

}  // namespace
}  // namespace strop

int main(int argc, char** argv) {
  strop::ThreadPool pool(strop::TakeThreads(argc, argv));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const strop::Cases real = strop::RealSizeCases();
  strop::RegisterAll("real", real, pool);
  strop::RegisterAll("small", strop::AllOpCases(), pool);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
