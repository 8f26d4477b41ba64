// SPDX-License-Identifier: Apache-2.0
//
// Direct convolution of one image. A vector holds filters: the output is
// blocked. The input is first laid out plain, its padding written out
// (PadImage), so that the loops know no borders:
//
//   y[m][o] = bias[m] + sum over rows r and taps k of
//             w[r][k][m] * x[row_offset[r] + o * stride + k * dilation]
//
// A row is a pair of channel and kernel row.
#pragma once

#include <cstdint>
#include <vector>

#include "base/round.h"
#include "providers/cpu/conv/conv_spec.h"

namespace strop {

// Widest kernel row for the gradient of the weights, which keeps a sum in a
// register for each of its taps.
inline constexpr int64_t kMaxDirectTaps = 7;

struct DirectPlan {
  Layout layout = Layout::kBlocked8;  // of the output
  int64_t channels = 0, filters = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t output_h = 1, output_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t dilation_h = 1, dilation_w = 1;
  // The padded image, (channels, padded_h, padded_w).
  int64_t padded_h = 0, padded_w = 0;
  std::vector<int64_t> row_offsets;

  int64_t rows() const { return channels * kernel_h; }
  int64_t block() const { return BlockSize(layout); }
  int64_t blocks() const { return CeilDiv(filters, block()); }
  int64_t output_size() const { return output_h * output_w; }
  int64_t padded_count() const { return channels * padded_h * padded_w; }
  // Floats of the weights of one block of filters, [row][tap][filter].
  int64_t packed_block() const { return rows() * kernel_w * block(); }
  int64_t packed_count() const { return packed_block() * blocks(); }
};

// Adds the offsets; all other fields are there.
void FinishPlan(DirectPlan& plan);

// How an image comes to lie in the padded one: element (h, w) of a plane goes
// to (h * step_h + begin_h, w * step_w + begin_w) if that is inside.
struct ImagePadding {
  Layout layout = Layout::kPlain;  // of the image
  int64_t channels = 0;
  int64_t height = 1, width = 1;
  int64_t begin_h = 0, begin_w = 0;
  int64_t step_h = 1, step_w = 1;
  int64_t padded_h = 1, padded_w = 1;

  int64_t stored_count() const {
    const int64_t block = BlockSize(layout);
    return RoundUp(channels, block) * height * width;
  }
  // The image may be used as it lies.
  bool IsIdentity() const {
    return layout == Layout::kPlain && begin_h == 0 && begin_w == 0 &&
           step_h == 1 && step_w == 1 && padded_h == height &&
           padded_w == width;
  }
};

void PadImage(const ImagePadding& padding, const float* image, float* padded);

// Runs blocks [first, last) of one image. `w` and `bias` are packed for all
// blocks; `bias` may be null. y is the whole image.
using DirectForwardFunction = void (*)(const DirectPlan& plan, int64_t first,
                                       int64_t last, const float* x,
                                       const float* w, const float* bias,
                                       float* y);
// dw (packed) += the image's part, or = it.
using DirectWeightsFunction = void (*)(const DirectPlan& plan, const float* x,
                                       const float* dy, bool accumulate,
                                       float* dw);

DirectForwardFunction GetDirectForward(Layout layout);
DirectWeightsFunction GetDirectWeights(Layout layout);
// The blocks that suit the vectors of this machine.
Layout GetDirectLayout();

}  // namespace strop
