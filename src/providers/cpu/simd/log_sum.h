// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop {

// log(sum(exp(x))) in two parts.
struct LogSum {
  float max;
  float log_sum;
};

}  // namespace strop
