// SPDX-License-Identifier: Apache-2.0
//
// Paths as UTF-8, which is what names in files, arguments and errors are.
// std::filesystem's own conversions take the code page on Windows, and throw
// where it lacks a letter. On POSIX all bytes are kept as they are.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace strop {

std::string PathText(const std::filesystem::path& path);

// Throws kInvalidArgument where the system wants UTF-8 and the text is none.
std::filesystem::path PathFromText(std::string_view text);

}  // namespace strop
