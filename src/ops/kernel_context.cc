// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "strop/op.h"

namespace strop {

// Waking a sleeping thread and joining it costs a few microseconds: a part
// is worth that only if it runs about as long.
constexpr double kPartNanoseconds = 5000;

void KernelContext::ParallelFor(int64_t n, double cost,
                                RangeFunction fn) const {
  if (n <= 0) return;
  const double total = static_cast<double>(n) * cost;
  if (pool_ == nullptr || num_threads_ <= 1 || total < 2 * kPartNanoseconds) {
    fn(0, n);
    return;
  }
  const double grain = std::ceil(kPartNanoseconds / cost);
  pool_->ParallelFor(n, std::max<int64_t>(1, static_cast<int64_t>(grain)),
                     num_threads_, fn);
}

}  // namespace strop
