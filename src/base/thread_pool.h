// SPDX-License-Identifier: Apache-2.0
//
// A small pool of threads for loops over independent parts.
//
// The range [0, n) is cut into as many equal parts as threads take part; the
// partition depends on n, grain and the thread count alone, so the same
// inputs give the same bits. Waiting threads spin for a bounded time, then
// sleep. In a child made by fork() the workers are rebuilt at the first use.
#pragma once

#include <cstdint>
#include <memory>

#include "strop/platform.h"

namespace strop {

class ThreadPool {
 public:
  // Waking a sleeping thread and joining it costs a few microseconds: a part
  // is worth that only if it runs about as long.
  static constexpr double kPartNanoseconds = 5000;

  // `num_threads` counts the calling thread; 0 means one per core. Workers
  // start at the first loop that needs them. Kernels cut no loop into parts
  // shorter than `part_nanoseconds`; 0, which tests use, has them cut all.
  explicit ThreadPool(int num_threads,
                      double part_nanoseconds = kPartNanoseconds);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;
  double part_nanoseconds() const { return part_nanoseconds_; }

  // Calls fn(begin, end) for disjoint parts that cover [0, n), each of at
  // least `grain` items where n allows, on at most `max_threads` threads
  // (the caller's among them), and returns when all have returned. Serial
  // when one part results, and inside another ParallelFor. One loop at a
  // time runs on the workers; a second caller's loop runs serially. The
  // first exception that a part throws is rethrown here after the join.
  // Allocates nothing after the workers have started.
  void ParallelFor(int64_t n, int64_t grain, int max_threads, RangeFunction fn);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  double part_nanoseconds_;
};

}  // namespace strop
