// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strop {

// The numbers of one AdamW step, the same for all parameters.
struct AdamWStep {
  float alpha, one_minus_alpha;
  float beta, one_minus_beta;
  float v_factor;
  float epsilon;
  float step_size;
  float decay;
  bool decay_first;
};

}  // namespace strop
