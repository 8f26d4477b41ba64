// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/conv/im2col.h"

#include <algorithm>
#include <cstring>

namespace strop {
namespace {

bool ReadsOutside(const ops::Window& w) {
  for (size_t axis = 0; axis < w.rank; ++axis) {
    for (const int64_t k : {int64_t{0}, w.kernel[axis] - 1}) {
      const auto span = w.ValidOutputs(axis, k);
      if (span.first > 0 || span.last < w.output[axis]) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<ConvTile> TileOutputs(const ops::Window& window, int64_t rows,
                                  int64_t limit) {
  const int64_t length = window.output[0];
  if (window.output_size() == 0) return {};
  const int64_t step = window.output_size() / length;
  const int64_t count = std::clamp<int64_t>(limit / (rows * step), 1, length);
  std::vector<ConvTile> tiles;
  for (int64_t i = 0; i < length; i += count) {
    ConvTile tile{window, i * step, 0};
    tile.window.output[0] = std::min(count, length - i);
    tile.window.pad_begin[0] -= i * window.stride[0];
    tile.size = tile.window.output[0] * step;
    tiles.push_back(tile);
  }
  return tiles;
}

bool IsPointwise(const ops::Window& window) {
  for (size_t i = 0; i < window.rank; ++i) {
    if (window.kernel[i] != 1 || window.stride[i] != 1 ||
        window.pad_begin[i] != 0 || window.output[i] != window.input[i]) {
      return false;
    }
  }
  return true;
}

void Im2Col(const ConvTile& tile, int64_t channels, const float* x,
            float* columns) {
  const ops::Window& w = tile.window;
  const int64_t taps = w.kernel_size();
  const int64_t plane = w.input_size();
  const int64_t stride = w.stride[w.rank - 1];
  if (ReadsOutside(w)) {
    std::memset(
        columns, 0,
        sizeof(float) * static_cast<size_t>(channels * taps * tile.size));
  }
  ForEachTapRow(w, [&](int64_t tap, int64_t from, int64_t to, int64_t count) {
    for (int64_t c = 0; c < channels; ++c) {
      const float* source = x + c * plane + from;
      float* target = columns + (c * taps + tap) * tile.size + to;
      if (stride == 1) {
        std::copy_n(source, count, target);
      } else {
        for (int64_t j = 0; j < count; ++j) target[j] = source[j * stride];
      }
    }
  });
}

void Col2Im(const ConvTile& tile, int64_t channels, const float* columns,
            float* x) {
  const ops::Window& w = tile.window;
  const int64_t taps = w.kernel_size();
  const int64_t plane = w.input_size();
  const int64_t stride = w.stride[w.rank - 1];
  ForEachTapRow(w, [&](int64_t tap, int64_t to, int64_t from, int64_t count) {
    for (int64_t c = 0; c < channels; ++c) {
      const float* source = columns + (c * taps + tap) * tile.size + from;
      float* target = x + c * plane + to;
      if (stride == 1) {
        for (int64_t j = 0; j < count; ++j) target[j] += source[j];
      } else {
        for (int64_t j = 0; j < count; ++j) target[j * stride] += source[j];
      }
    }
  });
}

}  // namespace strop
