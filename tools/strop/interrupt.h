// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop {

// While one lives, the first Ctrl-C (or SIGTERM) is noted instead of ending
// the program; a second one ends it at once. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool requested() const { return signal() != 0; }
  // The exit code of a program that the signal ended: 130 for Ctrl-C.
  int exit_code() const { return 128 + signal(); }

 private:
  static int signal();
};

}  // namespace strop
