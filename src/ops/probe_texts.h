// SPDX-License-Identifier: Apache-2.0
//
// The same error in two runs of shape inference, whose texts hold the sizes of
// the run.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace strop {

struct MergedText {
  std::string text;
  // The whole numbers that both texts have.
  std::set<int64_t> constants;
};

// `name` says what stands in the text for a number that is `first` in one and
// `second` in the other. Nothing where the texts differ in more than numbers.
std::optional<MergedText> MergeTexts(
    std::string_view a, std::string_view b,
    const std::function<std::string(int64_t first, int64_t second)>& name);

}  // namespace strop
