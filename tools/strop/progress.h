// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "strop/platform.h"

namespace strop {

// Shows how far a run is: on a terminal a bar that is redrawn in place, else
// a plain line now and then. Lines for people go through here, so that they
// do not run into the bar.
class Progress {
 public:
  struct Position {
    int64_t epoch = 0;   // counted from 1
    int64_t epochs = 0;  // 0: not known
    int64_t batch = 0, batches = 0;
    int64_t done = 0, total = 0;  // batches of this process
    int64_t samples = 0;          // since the start of this process
    double loss = 0;              // mean over the epoch so far
    float rate = 0;
  };

  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap; draws only a few times per second.
  void Update(const Position& position);
  // A whole line on standard output.
  void Print(std::string_view line);
  // A sink for an Environment's log, on standard error; `this` must outlive
  // it.
  LogSink log_sink();

  // Time and speed count from here; at first, from the construction.
  void Restart();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void ClearBar();
  std::string Line(const Position& position, size_t bar_width) const;

  bool terminal_;
  bool bar_drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_ = start_;
};

// "1:05", "2:03:04".
std::string DurationText(double seconds);

}  // namespace strop
