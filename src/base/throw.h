// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "strop/error.h"

namespace strop {

[[noreturn]] void ThrowText(ErrorCode code, const std::string& text);

// Throws an Error whose text is built as fmt::format does.
template <class... Args>
[[noreturn]] void Throw(ErrorCode code, fmt::format_string<Args...> text,
                        Args&&... args) {
  ThrowText(code, fmt::format(text, std::forward<Args>(args)...));
}

// For invariants of our own: user input must never reach this.
#define STROP_CHECK(condition)                                            \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::strop::Throw(::strop::ErrorCode::kInternal,                       \
                     "internal error: {}:{}: {} does not hold", __FILE__, \
                     __LINE__, #condition);                               \
  } while (false)

}  // namespace strop
