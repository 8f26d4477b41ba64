// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/throw.h"

namespace strop {

// Arguments that make no sense whatever the files hold: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void ThrowUsage(fmt::format_string<Args...> text, Args&&... args) {
  throw UsageError(fmt::format(text, std::forward<Args>(args)...));
}

// A check of an option's text for CLI11. An empty path is what a script gives
// whose variable is not set; it must not mean "as if not given".
inline std::string CheckNotEmpty(const std::string& text) {
  return text.empty() ? "wanted a path, got an empty text" : "";
}

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Beyond any machine; a guard against typing errors.
inline constexpr int kMostThreads = 4096;

// Cuts "NAME=VALUE" at the first '='; names with '=' do not exist in practice.
inline std::pair<std::string, std::string> SplitAssignment(
    std::string_view option, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos || equals + 1 == text.size()) {
    ThrowUsage("{} wants NAME=VALUE, got \"{}\"", option, text);
  }
  return {std::string(text.substr(0, equals)),
          std::string(text.substr(equals + 1))};
}

}  // namespace strop
