// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace strop {

// Bytes of memory that this process holds now; none where the system does not
// say. Pages that were never written are not among them.
inline std::optional<size_t> ResidentBytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  size_t kilobytes = 0;
  while (file >> word) {
    if (word == "VmRSS:" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace strop
