// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/machine.h"

namespace strop {

size_t MachineMemory() {
  static const size_t bytes = [] {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0
               ? static_cast<size_t>(pages) * static_cast<size_t>(page)
               : SIZE_MAX / 2;
  }();
  return bytes;
}

size_t PeakResidentBytes() {
  struct rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#if defined(__APPLE__)
  constexpr size_t kUnit = 1;
#else
  constexpr size_t kUnit = 1024;
#endif
  return static_cast<size_t>(usage.ru_maxrss) * kUnit;
}

int AvailableCores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    return std::max(1, CPU_COUNT(&cores));
  }
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

uint64_t ForkCount() {
  static std::atomic<uint64_t> count{0};
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

}  // namespace strop
