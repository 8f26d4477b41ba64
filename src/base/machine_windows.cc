// SPDX-License-Identifier: Apache-2.0
#include <windows.h>
// After windows.h:
#include <psapi.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "base/machine.h"

namespace strop {

size_t MachineMemory() {
  static const size_t bytes = [] {
    MEMORYSTATUSEX status = {};
    status.dwLength = sizeof(status);
    return ::GlobalMemoryStatusEx(&status)
               ? static_cast<size_t>(status.ullTotalPhys)
               : SIZE_MAX / 2;
  }();
  return bytes;
}

size_t PeakResidentBytes() {
  PROCESS_MEMORY_COUNTERS counters = {};
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters,
                                   sizeof(counters))
             ? counters.PeakWorkingSetSize
             : 0;
}

int AvailableCores() {
  // Both are 0 in a process that has threads on more than 64 cores.
  DWORD_PTR cores = 0, machine = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &cores, &machine) &&
      cores != 0 && cores != machine) {
    return std::popcount(uint64_t{cores});
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

uint64_t ForkCount() { return 0; }

}  // namespace strop
