// SPDX-License-Identifier: Apache-2.0
#include "training/session.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "base/throw.h"
#include "graph/onnx_io.h"

namespace strop {
namespace {

constexpr char kDisablePrepacking[] = "session.disable_prepacking";
constexpr char kFillMemory[] = "strop.fill_memory_with_nan";

bool IsOn(const SessionOptions& options, const char* entry) {
  const auto found = options.config.find(entry);
  return found != options.config.end() && found->second == "1";
}

void CheckOptions(const SessionOptions& options) {
  const auto prepacking = options.config.find(kDisablePrepacking);
  if (prepacking != options.config.end() && prepacking->second != "1") {
    Throw(ErrorCode::kInvalidArgument,
          "session options: {} must be \"1\" for training, got \"{}\"",
          kDisablePrepacking, prepacking->second);
  }
  const auto fill = options.config.find(kFillMemory);
  if (fill != options.config.end() && fill->second != "0" &&
      fill->second != "1") {
    Throw(ErrorCode::kInvalidArgument,
          "session options: {} must be \"0\" or \"1\", got \"{}\"", kFillMemory,
          fill->second);
  }
  if (options.num_threads < 0) {
    Throw(ErrorCode::kInvalidArgument,
          "session options: num_threads must be 0 or more, got {}",
          options.num_threads);
  }
  if (options.max_plans < 1) {
    Throw(ErrorCode::kInvalidArgument,
          "session options: max_plans must be 1 or more, got {}",
          options.max_plans);
  }
}

}  // namespace

Session::Session(
    const SessionOptions& options, const Environment& environment,
    const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
    std::span<const CustomOpDomain* const> custom_ops)
    : options_(options), environment_(environment), providers_(providers) {
  CheckOptions(options_);
  options_.config.emplace(kDisablePrepacking, "1");
  if (providers_.empty()) providers_.push_back(CpuExecutionProvider());
  for (const CustomOpDomain* domain : custom_ops) {
    custom_ops_.push_back(*domain);
  }
  for (const CustomOpDomain& domain : custom_ops_) {
    custom_op_pointers_.push_back(&domain);
  }
  if (options_.enable_profiling) profiler_ = std::make_unique<Profiler>();
}

ExecutorOptions Session::executor_options() const {
  ThreadPool& pool = environment_.thread_pool();
  const int threads = options_.num_threads == 0
                          ? pool.num_threads()
                          : std::min(options_.num_threads, pool.num_threads());
  return {.providers = providers_,
          .thread_pool = &pool,
          .num_threads = threads,
          .max_plans = options_.max_plans,
          .memory_limit_bytes = options_.memory_limit_bytes,
          .profiler = profiler_.get(),
          .fill_memory_with_nan = IsOn(options_, kFillMemory)};
}

Model ReadModel(const ModelSource& source, const Environment& environment) {
  OnnxReadOptions options;
  options.log = environment.log();
  if (const auto* path = std::get_if<std::filesystem::path>(&source)) {
    return ReadOnnx(*path, environment.files(), options);
  }
  return ReadOnnx(std::get<std::span<const std::byte>>(source), options);
}

}  // namespace strop
