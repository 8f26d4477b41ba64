// SPDX-License-Identifier: Apache-2.0
//
// Times of kernels, written as a Chrome trace (chrome://tracing, Perfetto).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace strop {

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  // One run of one step of a plan.
  void Record(const Plan& plan, const PlanStep& step, Clock::time_point begin,
              Clock::time_point end);

  // The events as a JSON array in Chrome's trace format: name (op and node),
  // time and duration in microseconds, and as arguments kernel, shapes,
  // milliseconds and GFLOP/s where the kernel states its operations.
  // After kMostEvents no more are kept; the trace then says how many are not
  // in it.
  std::string ToJson() const;

  static constexpr size_t kMostEvents = 500'000;

 private:
  struct Event {
    std::string name, kernel, shapes;
    int64_t begin_ns, duration_ns;
    double flops;
  };
  std::vector<Event> events_;
  size_t left_out_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace strop
