// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "strop/platform.h"

namespace strop {

class ThreadPool;

struct EnvironmentOptions {
  // Threads that sessions of this environment share, the calling thread
  // included; 0 means one per core.
  int num_threads = 0;
  // Gets warnings and information; empty: warnings go to standard error.
  LogSink log = {};
  // Null: the file system of the operating system.
  std::shared_ptr<FileSystem> files = {};
};

// What sessions run in: threads, files and the log. It outlives every
// CheckpointState, Module and Optimizer made with it. May be used from any
// thread; steps of two sessions at a time are safe, the one that finds the
// workers busy runs on its own thread alone.
class STROP_EXPORT Environment {
 public:
  explicit Environment(EnvironmentOptions options = {});
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  ThreadPool& thread_pool() const;
  FileSystem& files() const;
  void Log(LogLevel level, std::string_view text) const;
  const LogSink& log() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strop
