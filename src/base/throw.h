// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include "strop/error.h"

namespace strop {

[[noreturn]] void ThrowFormatted(ErrorCode code, fmt::string_view text,
                                 fmt::format_args arguments);

// Throws an Error whose text is built as fmt::format does.
template <class... Args>
[[noreturn]] void Throw(ErrorCode code, fmt::format_string<Args...> text,
                        Args&&... args) {
  ThrowFormatted(code, text, fmt::make_format_args(args...));
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
