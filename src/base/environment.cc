// SPDX-License-Identifier: Apache-2.0
#include "strop/environment.h"

#include <cstdio>
#include <string>
#include <utility>

#include "base/thread_pool.h"

namespace strop {
namespace {

void LogToStandardError(LogLevel level, std::string_view text) {
  if (level == LogLevel::kInfo) return;
  std::string line =
      level == LogLevel::kWarning ? "strop: warning: " : "strop: error: ";
  line.append(text).append("\n");
  // One call, so that lines of several threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

class Environment::Impl {
 public:
  explicit Impl(EnvironmentOptions options)
      : pool(options.num_threads),
        log(options.log ? std::move(options.log) : LogToStandardError),
        files(options.files ? std::move(options.files)
                            : FileSystem::Default()) {}

  ThreadPool pool;
  const LogSink log;
  const std::shared_ptr<FileSystem> files;
};

Environment::Environment(EnvironmentOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

Environment::~Environment() = default;

ThreadPool& Environment::thread_pool() const { return impl_->pool; }

FileSystem& Environment::files() const { return *impl_->files; }

void Environment::Log(LogLevel level, std::string_view text) const {
  impl_->log(level, text);
}

const LogSink& Environment::log() const { return impl_->log; }

}  // namespace strop
