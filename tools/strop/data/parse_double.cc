// SPDX-License-Identifier: Apache-2.0
#include "data/parse_double.h"

#include <charconv>

#if !defined(__cpp_lib_to_chars)
#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

namespace strop::data {

#if defined(__cpp_lib_to_chars)

bool ParseDouble(std::string_view text, double* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

#else  // libc++ before version 20, and so Apple's

bool ParseDouble(std::string_view text, double* value) {
  // strtod also takes spaces, '+' and hexadecimal numbers.
  if (text.empty() || text.find_first_of(" \t\n\v\f\r+") == 0 ||
      text.find_first_of("xX") != text.npos) {
    return false;
  }
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", locale_t{});
  const std::string copy(text);
  char* stop = nullptr;
  errno = 0;
  const double number = strtod_l(copy.c_str(), &stop, locale);
  // Subnormal numbers are out of range for strtod only.
  const bool fits = errno != ERANGE || (number != 0 && std::isfinite(number));
  if (!fits || stop != copy.c_str() + copy.size()) return false;
  *value = number;
  return true;
}

#endif

}  // namespace strop::data
