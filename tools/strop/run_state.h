// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint must know besides parameters and moments, so that
// `strop train --resume` goes on with the same bits: hidden properties under
// "strop.train.".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strop/checkpoint_state.h"

namespace strop {

struct RunState {
  // What the run is.
  int64_t samples = 0;
  int64_t batch_size = 32;
  int64_t accumulate = 1;  // as given: an epoch may have fewer batches
  int64_t seed = 0;
  int64_t shuffle = 1;  // 0 or 1
  int64_t epochs = 1;   // the goal; 0: `steps` is
  int64_t steps = 0;    // optimizer steps
  std::string schedule = "none";
  int64_t warmup = 0;
  int64_t threads = 1;              // as many as there were: rounding differs
  std::vector<std::string> scales;  // of --scale, ascending
  // Optimizer steps of earlier runs, which its step counter includes.
  int64_t first_step = 0;

  // Where it stands: epochs that are complete, batches of the current one,
  // optimizer steps of this run.
  int64_t epoch = 0;
  int64_t batch = 0;
  int64_t step = 0;
  // Of the current epoch: rows that were trained, and their losses' sum.
  int64_t epoch_rows = 0;
  double loss_sum = 0;

  void Save(CheckpointState* state) const;
  // False if the checkpoint is not of a training run of this program.
  bool Load(const CheckpointState& state);
};

}  // namespace strop
