// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "dataset.h"
#ifndef STROP_NO_AUTODIFF
#include "prepare_options.h"
#endif

namespace strop {

// The options of `strop train`; what is not given is taken from the run that
// is resumed, else from RunState's defaults.
struct TrainOptions {
  std::filesystem::path folder;  // or a bare model
#ifndef STROP_NO_AUTODIFF
  PrepareOptions prepare;  // for a bare model
#endif
  DataOptions data;
  DataOptions validation{.option = "--validation", .inputs = {}, .scales = {}};
  std::filesystem::path checkpoint;  // to start from; empty: the folder's
  std::filesystem::path output;      // empty: `folder`/trained
  bool resume = false;

  std::optional<int64_t> epochs, steps, batch_size, accumulate, seed, warmup;
  std::optional<float> learning_rate;
  std::optional<std::string> schedule;
  std::optional<bool> shuffle;
  std::optional<int> threads;  // 0: all cores

  std::filesystem::path metrics, profile;  // empty: not written
};

// Trains and returns the exit code of the program: 0, or 128 and the number
// of the signal that ended the run in good order.
int Train(const TrainOptions& options);

}  // namespace strop
