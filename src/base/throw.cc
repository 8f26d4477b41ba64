// SPDX-License-Identifier: Apache-2.0
#include "base/throw.h"

#include <string>

namespace strop {

void ThrowFormatted(ErrorCode code, fmt::string_view text,
                    fmt::format_args arguments) {
  throw Error(code, fmt::vformat(text, arguments));
}

}  // namespace strop
