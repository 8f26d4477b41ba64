// SPDX-License-Identifier: Apache-2.0
#include "runtime/json.h"

#include <fmt/format.h>

namespace strop {

std::string JsonString(std::string_view text) {
  std::string json = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

}  // namespace strop
