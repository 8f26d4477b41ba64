// SPDX-License-Identifier: Apache-2.0
//
// Direct convolution of one image. A vector holds filters, and the output is
// blocked; or it is plain, and a vector holds neighbours (row_loops.h). The
// input is first laid out with its padding (PadImages), so that the loops know
// no borders:
//
//   y[m][o] = bias[m] + sum over terms t of w[t][m] * x[offset[t] + o * step]
//
// A term is a pair of a channel and a tap of the kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/round.h"
#include "providers/cpu/conv/conv_spec.h"
#include "providers/cpu/conv/fused_conv.h"

namespace strop {

// Terms [first, last) of a plan.
struct TermRange {
  int64_t first, last;
};

// Where the kernel's rows read: row i of it for the first row of outputs at
// reads[i], for the next one `stride` further. Rows [first, last) of the padded
// image are more than padding.
struct KernelRows {
  std::vector<int64_t> reads;
  int64_t stride = 1;
  int64_t first = 0, last = 0;
};

struct DirectPlan {
  Layout layout = Layout::kBlocked8;  // of the output
  // Of the padded image: plain or that of the output.
  Layout x_layout = Layout::kPlain;
  int64_t filters = 0;
  // The outputs that the plan computes. In the image, whose planes have
  // y_size elements, (h, w) is element y_start + h * y_row + w * y_step.
  int64_t output_h = 1, output_w = 1;
  int64_t y_start = 0, y_row = 1, y_step = 1, y_size = 1;
  // Floats of the padded image between what neighbouring rows read.
  int64_t x_row = 0;
  // For each term where the first output reads, and where the weight of the
  // first filter lies in W, in which filters are filter_step apart.
  std::vector<int64_t> offsets, sources;
  int64_t filter_step = 0;
  // Set where the terms of a row of the kernel lie side by side.
  KernelRows rows;
  std::optional<Bounds> bounds;  // of an activation

  // The terms of rows [first, last] of the outputs, all or without some that
  // read padding only.
  TermRange TermsOfRows(int64_t first, int64_t last) const;
  int64_t terms() const { return static_cast<int64_t>(offsets.size()); }
  int64_t block() const { return BlockSize(layout); }
  int64_t blocks() const { return CeilDiv(filters, block()); }
  int64_t output_size() const { return output_h * output_w; }
  // Floats of a block of the image that is written.
  int64_t y_block() const { return y_size * block(); }
  // Floats of the weights of one block of filters, [term][filter].
  int64_t packed_block() const { return terms() * block(); }
  int64_t packed_count() const { return packed_block() * blocks(); }
};

// How an image comes to lie in the padded one: element (h, w) of the padded
// one is element (h * read_h - begin_h, w * read_w - begin_w), or zero if there
// is none. Every `phases`-th column lies side by side: column w is at
// w % phases * phase_w() + w / phases, so that outputs with strides read
// neighbours.
struct ImagePadding {
  Layout layout = Layout::kPlain;         // of the image
  Layout padded_layout = Layout::kPlain;  // plain or that of the image
  int64_t channels = 0;
  int64_t height = 1, width = 1;
  int64_t begin_h = 0, begin_w = 0;
  int64_t read_h = 1, read_w = 1;
  int64_t phases = 1;
  int64_t padded_h = 1, padded_w = 1;

  int64_t stored_count() const {
    return RoundUp(channels, BlockSize(layout)) * height * width;
  }
  int64_t phase_w() const { return CeilDiv(padded_w, phases); }
  // Floats of a row, a plane and all planes of the padded image.
  int64_t row() const { return phases * phase_w() * BlockSize(padded_layout); }
  int64_t plane() const { return padded_h * row(); }
  int64_t padded_count() const {
    return CeilDiv(channels, BlockSize(padded_layout)) * plane();
  }
  // The image may be used as it lies.
  bool IsIdentity() const {
    return layout == padded_layout && begin_h == 0 && begin_w == 0 &&
           read_h == 1 && read_w == 1 && phases == 1 && padded_h == height &&
           padded_w == width;
  }
};

// The elements [first, last) of an axis of the padded image that are no
// padding.
struct AxisRange {
  int64_t first, last;
  AxisRange(int64_t size, int64_t begin, int64_t read, int64_t padded)
      : first(std::min(padded, begin > 0 ? CeilDiv(begin, read) : 0)),
        last(std::clamp(size + begin > 0 ? CeilDiv(size + begin, read) : 0,
                        first, padded)) {}
};

void PadImages(const ImagePadding& padding, const float* images, int64_t count,
               float* padded);

// Runs blocks [first, last) of one image. `w` and `bias` are packed for all
// blocks; `bias` may be null. y is the whole image.
using DirectForwardFunction = void (*)(const DirectPlan& plan, int64_t first,
                                       int64_t last, const float* x,
                                       const float* w, const float* bias,
                                       float* y);
// dw (packed) += the part of the image in blocks [first, last), or = it. The
// plan computes all outputs.
using DirectWeightsFunction = void (*)(const DirectPlan& plan, int64_t first,
                                       int64_t last, const float* x,
                                       const float* dy, bool accumulate,
                                       float* dw);

DirectForwardFunction GetDirectForward(Layout layout);
DirectWeightsFunction GetDirectWeights(Layout layout);
// The blocks that suit the vectors of this machine.
Layout GetDirectLayout();

}  // namespace strop
