// SPDX-License-Identifier: Apache-2.0
//
// What Strop asks of the machine it runs on. The build takes one of
// machine_posix.cc and machine_windows.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strop {

// Bytes of memory; more than any request where the system does not say.
size_t MachineMemory();

// The most bytes of memory that this process has held at a time; 0 where the
// system does not say.
size_t PeakResidentBytes();

// Cores this process may use: a container's CPU set counts, not the machine.
int AvailableCores();

// Forks that lie between this process and the one that loaded Strop: threads
// do not come along.
uint64_t ForkCount();

}  // namespace strop
