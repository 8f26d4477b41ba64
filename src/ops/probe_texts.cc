// SPDX-License-Identifier: Apache-2.0
#include "ops/probe_texts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace strop {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes the number or the text between numbers at the front.
std::string_view TakePart(std::string_view* text) {
  const bool digits = IsDigit(text->front());
  const auto end =
      std::ranges::find_if(*text, [&](char c) { return IsDigit(c) != digits; });
  const auto length = static_cast<size_t>(end - text->begin());
  const std::string_view part = text->substr(0, length);
  text->remove_prefix(length);
  return part;
}

std::optional<int64_t> NumberOf(std::string_view part) {
  int64_t number = 0;
  const char* const end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<MergedText> MergeTexts(
    std::string_view a, std::string_view b,
    const std::function<std::string(int64_t, int64_t)>& name) {
  MergedText merged;
  while (!a.empty() && !b.empty()) {
    const std::string_view first = TakePart(&a), second = TakePart(&b);
    const std::optional<int64_t> x = NumberOf(first), y = NumberOf(second);
    if (first == second) {
      if (x) merged.constants.insert(*x);
      merged.text += first;
      continue;
    }
    if (!x || !y) return std::nullopt;
    merged.text += name(*x, *y);
  }
  if (!a.empty() || !b.empty()) return std::nullopt;
  return merged;
}

}  // namespace strop
