// SPDX-License-Identifier: Apache-2.0
#include "base/throw.h"

namespace strop {

void ThrowText(ErrorCode code, const std::string& text) {
  throw Error(code, text);
}

}  // namespace strop
