// SPDX-License-Identifier: Apache-2.0
#include "base/round.h"
#include "base/throw.h"
#include "strop/execution_provider.h"

namespace strop {

std::string_view LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kBlocked8:
      return "blocked8";
    case Layout::kBlocked16:
      return "blocked16";
  }
  return "unknown";
}

int64_t BlockSize(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return 1;
    case Layout::kBlocked8:
      return 8;
    case Layout::kBlocked16:
      return 16;
  }
  return 1;
}

int64_t StoredElementCount(const Shape& shape, Layout layout) {
  if (layout == Layout::kPlain) return shape.element_count();
  STROP_CHECK(shape.rank() >= 2);
  const int64_t block = BlockSize(layout);
  const int64_t channels = RoundUp(shape[1], block);
  return shape[0] * channels * shape.element_count(2, shape.rank());
}

}  // namespace strop
