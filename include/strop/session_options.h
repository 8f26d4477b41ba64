// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "strop/error.h"

namespace strop {

struct SessionOptions {
  // Number of threads a step may use; 0 means all of the Environment.
  // The same number, inputs and seed give the same bits.
  int num_threads = 0;

  // Most bytes a step may hold beside parameters, gradients and what the
  // caller gives; 0 means no limit. To keep to it, values of the forward pass
  // are computed again in the backward pass, the cheapest first, with the same
  // bits. Where the plan needs more even so, the first step with those shapes
  // throws kOutOfMemory before it writes anything, and names what the plan had
  // come to. What sub-graphs hold (their plans, the values
  // that a Loop carries, what it stacks) is counted as they run: the error
  // then names what the step had come to.
  size_t memory_limit_bytes = 0;

  // What a train step does when its loss is infinite or not a number:
  // kReport returns it like any other and updates the gradients; kError
  // throws kNonFinite before any state is written.
  enum class NonFinite { kReport, kError };
  NonFinite non_finite = NonFinite::kReport;

  // Train steps update the running statistics of BatchNormalization in the
  // checkpoint state, as ONNX Runtime does; false freezes them.
  bool update_batch_norm_statistics = true;

  // Plans kept for different tuples of input shapes, train and eval each.
  int max_plans = 4;

  // Passes over the graph to leave out, for finding faults: remove_identity,
  // use_relu_output, name_pool_shapes, name_expanded_shapes, name_split_sizes,
  // name_peepholes, fuse_clip_grad, fuse_batch_norm, pool_before_relu,
  // fuse_conv, fuse_matmul, fuse_attention, fuse_gemm, fuse_accumulate,
  // remove_dead, write_early, mark_recompute. Another name throws
  // kInvalidArgument.
  std::vector<std::string> disabled_passes;

  // Collect per-kernel times; Module::WriteProfile writes them.
  bool enable_profiling = false;

  // Entries as in ONNX Runtime's session configuration. Known:
  // "session.disable_prepacking", which must be "1" when present, and
  // "strop.fill_memory_with_nan": "1" fills the memory of a step with NaN
  // first, for finding kernels that read what was not written.
  std::map<std::string, std::string> config;
};

}  // namespace strop
