// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/round.h"

namespace strop {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest SIMD vector

bool LivesOverlap(const BufferLife& a, const BufferLife& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The offset for `bytes` among `placed` buffers, which are sorted by offset.
size_t FindGap(const std::vector<std::pair<size_t, size_t>>& placed,
               size_t bytes) {
  size_t best = 0, best_size = 0;
  bool found = false;
  size_t end = 0;
  for (const auto& [offset, size] : placed) {
    if (offset > end) {
      const size_t gap = offset - end;
      if (gap >= bytes && (!found || gap < best_size)) {
        found = true;
        best = end;
        best_size = gap;
      }
    }
    end = std::max(end, offset + size);
  }
  return found ? best : end;
}

// Places the buffer with the largest rank first, each in the smallest gap that
// fits, else at the end.
template <class Rank>
MemoryPlan PlaceBy(std::span<const BufferLife> buffers, Rank rank) {
  MemoryPlan plan;
  plan.offsets.resize(buffers.size(), 0);
  std::vector<size_t> ranked(buffers.size());
  std::iota(ranked.begin(), ranked.end(), size_t{0});
  std::ranges::stable_sort(ranked, std::greater<>(),
                           [&](size_t i) { return rank(buffers[i]); });

  std::vector<size_t> placed;  // indices of buffers that have an offset
  std::vector<std::pair<size_t, size_t>> conflicts;
  for (size_t i : ranked) {
    const size_t bytes = RoundUp(buffers[i].bytes, kAlignment);
    if (bytes == 0) continue;
    conflicts.clear();
    for (size_t other : placed) {
      if (LivesOverlap(buffers[i], buffers[other])) {
        conflicts.emplace_back(plan.offsets[other],
                               RoundUp(buffers[other].bytes, kAlignment));
      }
    }
    std::sort(conflicts.begin(), conflicts.end());
    plan.offsets[i] = FindGap(conflicts, bytes);
    plan.total_bytes = std::max(plan.total_bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace

MemoryPlan PlanMemory(std::span<const BufferLife> buffers) {
  MemoryPlan by_size =
      PlaceBy(buffers, [](const BufferLife& life) { return life.bytes; });
  MemoryPlan by_area = PlaceBy(buffers, [](const BufferLife& life) {
    return static_cast<double>(life.bytes) * (life.last - life.first + 1);
  });
  return by_area.total_bytes < by_size.total_bytes ? by_area : by_size;
}

}  // namespace strop
