// SPDX-License-Identifier: Apache-2.0
//
// Convolution as matrix multiplication: a tile of output positions becomes a
// matrix with a row for each (channel, tap) and a column for each position.
#pragma once

#include <cstdint>
#include <vector>

#include "providers/cpu/conv/conv_spec.h"

namespace strop {

// A run of output positions: some indices of the first output axis.
struct ConvTile {
  ops::Window window;  // of the tile alone; reads the whole input
  int64_t first = 0;   // its first output position
  int64_t size = 0;
};

// Floats of a tile's matrix that stay in the second-level cache.
inline constexpr int64_t kColumnsLimit = 64 * 1024;

// Tiles that cover all outputs; all but the last have the same size. A tile
// has at least one index of the first axis and at most about `limit` floats
// in its matrix of `rows` rows.
std::vector<ConvTile> TileOutputs(const ops::Window& window, int64_t rows,
                                  int64_t limit);

// Whether the matrix is the input itself: one tap, no padding, no stride.
bool IsPointwise(const ops::Window& window);

// columns[(c * taps + tap) * tile.size + o] = what output o reads, zero
// outside of the input; x has `channels` planes.
void Im2Col(const ConvTile& tile, int64_t channels, const float* x,
            float* columns);

// The transposed step: adds each element of the matrix to where it was read.
void Col2Im(const ConvTile& tile, int64_t channels, const float* columns,
            float* x);

}  // namespace strop
