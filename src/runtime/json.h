// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace strop {

// `text` as a JSON string with its quotes. Bytes that are not ASCII pass
// through, so UTF-8 stays UTF-8.
std::string JsonString(std::string_view text);

}  // namespace strop
