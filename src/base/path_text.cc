// SPDX-License-Identifier: Apache-2.0
#include "base/path_text.h"

#include <system_error>

#include "base/throw.h"

namespace strop {

std::string PathText(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

std::filesystem::path PathFromText(std::string_view text) {
  try {
    return std::u8string(text.begin(), text.end());
  } catch (const std::system_error&) {
    Throw(ErrorCode::kInvalidArgument, "the path \"{}\" is not in UTF-8", text);
  }
}

}  // namespace strop
