// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "strop/op.h"

namespace strop {

void KernelContext::ParallelFor(int64_t n, double cost,
                                RangeFunction fn) const {
  if (n <= 0) return;
  if (pool_ == nullptr || num_threads_ <= 1) return fn(0, n);
  const double part = pool_->part_nanoseconds();
  if (static_cast<double>(n) * cost < 2 * part) return fn(0, n);
  const double grain = part > 0 ? std::ceil(part / cost) : 1;
  pool_->ParallelFor(n, std::max<int64_t>(1, static_cast<int64_t>(grain)),
                     num_threads_, fn);
}

}  // namespace strop
