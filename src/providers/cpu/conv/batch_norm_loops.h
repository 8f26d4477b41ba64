// SPDX-License-Identifier: Apache-2.0
//
// The loops of BatchNormalization over one unit: the positions of an image in
// one channel (plain layout) or in one block of channels.
#pragma once

#include <cstdint>

#include "strop/execution_provider.h"

namespace strop {

inline constexpr int kMostLanes = 16;

// What follows the normalization: y = min(max(z, low), high), or Relu.
enum class NormActivation : uint8_t { kNone, kRelu, kClip };

// Numbers for each lane of a block; lanes beyond the last channel are zero.
// A plain channel has lane 0.
struct NormLanes {
  // z = (x - center) factor + bias
  float center[kMostLanes];
  float factor[kMostLanes];
  float bias[kMostLanes];
  // dx = outer (dz - shift - (x - center) slope)
  float outer[kMostLanes];
  float shift[kMostLanes];
  float slope[kMostLanes];
};

// Mean and sum of the squared deviations from it.
struct NormMoments {
  double count;
  double mean[kMostLanes];
  double square[kMostLanes];
};

// Adds another sample's moments.
void MergeMoments(NormMoments& to, const NormMoments& from, int lanes);

struct NormSums {
  double dz[kMostLanes];     // sum of dz
  double slope[kMostLanes];  // sum of dz (x - center)
};

// A unit of the tensors. Those that a loop does not name may be null.
struct NormUnit {
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* residual = nullptr;  // added before the activation
  // Of the forward pass: shows where Relu let through, when a residual makes
  // that impossible to compute again.
  const float* y = nullptr;
  float* to = nullptr;  // Y, or dX
  float* dz = nullptr;  // dZ, where it is wanted: the residual's gradient
  int64_t positions = 0;
  float low = 0, high = 0;  // of kClip
};

struct NormLoops {
  // The moments of x.
  NormMoments (*moments)(const float* x, int64_t positions);
  // to = activation(z + residual)
  void (*apply)(const NormUnit& unit, const NormLanes& lanes);
  // Adds to `sums`; writes dz if it is there.
  void (*sum)(const NormUnit& unit, const NormLanes& lanes, NormSums& sums);
  // to = dx. With `dz`, reads that instead of dy and y.
  void (*grad)(const NormUnit& unit, const NormLanes& lanes);
};

NormLoops GetNormLoops(Layout layout, NormActivation activation);

}  // namespace strop
