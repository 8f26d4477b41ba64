// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace strop {

// A check of an option's text for CLI11: a whole number in [least, most].
// The parser's own conversion would clamp what is too large.
class WholeNumber {
 public:
  explicit WholeNumber(int64_t least,
                       int64_t most = std::numeric_limits<int64_t>::max())
      : least_(least), most_(most) {}

  std::string operator()(const std::string& text) const {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least_ &&
        value <= most_) {
      return {};
    }
    return "wanted a whole number from " + std::to_string(least_) + " to " +
           std::to_string(most_) + ", got \"" + text + "\"";
  }

 private:
  int64_t least_, most_;
};

}  // namespace strop
