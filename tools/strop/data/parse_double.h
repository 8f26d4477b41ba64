// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace strop::data {

// As std::from_chars, which not every library has for floating point: the
// whole text must be a number, and '.' is its decimal point in all locales.
bool ParseDouble(std::string_view text, double* value);

}  // namespace strop::data
