// SPDX-License-Identifier: Apache-2.0
//
// Plain direct convolution, forward and backward, over any number of spatial
// axes. Shapes: X (N, C, in...), W (M, C / group, taps...), Y (N, M, out...).
#pragma once

#include "ops/window.h"

namespace strop::ops {

struct ConvSizes {
  Window window;
  int64_t batch, in_channels, out_channels, group;

  int64_t group_in() const { return in_channels / group; }
  int64_t group_out() const { return out_channels / group; }
  double flops_per_channel() const {
    return 2.0 * static_cast<double>(group_in() * window.kernel_size()) *
           static_cast<double>(window.output_size());
  }
};

// Attributes and shapes of a Conv-like node; throws when they do not fit.
ConvSizes ReadConvSizes(const OpNode& node, const Shape& x, const Shape& w);

template <class T>
void ConvForward(const KernelContext& c, const ConvSizes& s, const T* x,
                 const T* w, const T* bias, T* y) {
  const Window& window = s.window;
  const int64_t in = window.input_size(), out = window.output_size();
  const int64_t taps = window.kernel_size();
  const int64_t stride = window.stride[window.rank - 1];
  const int64_t channels = s.group_in();
  c.ParallelFor(s.batch * s.out_channels, 0.3 * s.flops_per_channel(),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const int64_t n = i / s.out_channels,
                                  m = i % s.out_channels;
                    T* y_plane = y + i * out;
                    std::fill_n(y_plane, out, bias ? bias[m] : T{0});
                    for (int64_t k = 0; k < channels; ++k) {
                      const int64_t channel = m / s.group_out() * channels + k;
                      const T* x_plane = x + (n * s.in_channels + channel) * in;
                      const T* taps_of = w + (m * channels + k) * taps;
                      ForEachTapRow(window, [&](int64_t tap, int64_t xo,
                                                int64_t yo, int64_t count) {
                        const T factor = taps_of[tap];
                        for (int64_t j = 0; j < count; ++j) {
                          y_plane[yo + j] += factor * x_plane[xo + j * stride];
                        }
                      });
                    }
                  }
                });
}

// dX[n, c] = sum over output channels m and taps of W[m, c] dY[n, m]
template <class T>
void ConvBackwardInput(const KernelContext& c, const ConvSizes& s, const T* dy,
                       const T* w, T* dx) {
  const Window& window = s.window;
  const int64_t in = window.input_size(), out = window.output_size();
  const int64_t taps = window.kernel_size();
  const int64_t stride = window.stride[window.rank - 1];
  const int64_t channels = s.group_in();
  c.ParallelFor(
      s.batch * s.in_channels,
      0.3 * s.flops_per_channel() * static_cast<double>(s.group_out()) /
          static_cast<double>(std::max<int64_t>(1, channels)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = i / s.in_channels, channel = i % s.in_channels;
          T* dx_plane = dx + i * in;
          std::fill_n(dx_plane, in, T{0});
          for (int64_t k = 0; k < s.group_out(); ++k) {
            const int64_t m = channel / channels * s.group_out() + k;
            const T* dy_plane = dy + (n * s.out_channels + m) * out;
            const T* taps_of = w + (m * channels + channel % channels) * taps;
            ForEachTapRow(window, [&](int64_t tap, int64_t xo, int64_t yo,
                                      int64_t count) {
              const T factor = taps_of[tap];
              for (int64_t j = 0; j < count; ++j) {
                dx_plane[xo + j * stride] += factor * dy_plane[yo + j];
              }
            });
          }
        }
      });
}

// dW[m, c, tap] = sum over n and outputs of X[n, c, tap's input] dY[n, m]
template <class T>
void ConvBackwardWeight(const KernelContext& c, const ConvSizes& s, const T* dy,
                        const T* x, T* dw, bool accumulate) {
  const Window& window = s.window;
  const int64_t in = window.input_size(), out = window.output_size();
  const int64_t taps = window.kernel_size();
  const int64_t stride = window.stride[window.rank - 1];
  const int64_t channels = s.group_in();
  c.ParallelFor(
      s.out_channels * channels,
      0.6 * static_cast<double>(taps * out) * static_cast<double>(s.batch),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t m = i / channels;
          const int64_t channel = m / s.group_out() * channels + i % channels;
          T* sums = dw + i * taps;
          if (!accumulate) std::fill_n(sums, taps, T{0});
          for (int64_t n = 0; n < s.batch; ++n) {
            const T* x_plane = x + (n * s.in_channels + channel) * in;
            const T* dy_plane = dy + (n * s.out_channels + m) * out;
            ForEachTapRow(window, [&](int64_t tap, int64_t xo, int64_t yo,
                                      int64_t count) {
              T sum = 0;
              for (int64_t j = 0; j < count; ++j) {
                sum += x_plane[xo + j * stride] * dy_plane[yo + j];
              }
              sums[tap] += sum;
            });
          }
        }
      });
}

// db[m] = sum over the planes x[:, m] of x (batch, channels, size)
template <class T>
void SumPlanes(const KernelContext& c, int64_t batch, int64_t channels,
               int64_t size, const T* x, T* db, bool accumulate) {
  c.ParallelFor(channels, static_cast<double>(batch * size),
                [&](int64_t begin, int64_t end) {
                  for (int64_t m = begin; m < end; ++m) {
                    double sum = 0;
                    for (int64_t n = 0; n < batch; ++n) {
                      const T* p = x + (n * channels + m) * size;
                      for (int64_t j = 0; j < size; ++j) {
                        sum += static_cast<double>(p[j]);
                      }
                    }
                    const T total = static_cast<T>(sum);
                    db[m] = accumulate ? db[m] + total : total;
                  }
                });
}

// dB[m] = sum of dY[:, m]
template <class T>
void ConvBackwardBias(const KernelContext& c, const ConvSizes& s, const T* dy,
                      T* db, bool accumulate) {
  SumPlanes<T>(c, s.batch, s.out_channels, s.window.output_size(), dy, db,
               accumulate);
}

}  // namespace strop::ops
