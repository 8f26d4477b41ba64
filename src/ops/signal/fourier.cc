// SPDX-License-Identifier: Apache-2.0
#include "ops/signal/fourier.h"

#include <algorithm>
#include <bit>
#include <numbers>
#include <utility>

namespace strop::ops {
namespace {

// A length that is no power of two becomes a convolution (Bluestein, "A
// linear filtering approach to the computation of discrete Fourier
// transform", 1970): with jk = (j^2 + k^2 - (k - j)^2) / 2,
//   X[k] = chirp[k] sum over j of (x[j] chirp[j]) conj(chirp[k - j]),
// which runs through transforms of a power of two, m >= 2 n - 1.
size_t PaddedLength(size_t n) {
  return std::has_single_bit(n) ? n : std::bit_ceil(2 * n - 1);
}

}  // namespace

size_t FourierTransform::ScratchBytes(int64_t n) {
  const auto length = static_cast<size_t>(n);
  const size_t m = PaddedLength(length);
  return (m / 2 + m + (m == length ? 0 : length + m)) * sizeof(Complex);
}

FourierTransform::FourierTransform(int64_t n, std::byte* scratch)
    : n_(static_cast<size_t>(n)) {
  auto* next = reinterpret_cast<Complex*>(scratch);
  const auto take = [&](size_t count) {
    return std::span<Complex>(std::exchange(next, next + count), count);
  };
  const size_t m = PaddedLength(n_);
  roots_ = take(m / 2);
  work_ = take(m);
  for (size_t k = 0; k < roots_.size(); ++k) {
    roots_[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) /
                                    static_cast<double>(m));
  }
  if (m == n_) return;
  chirp_ = take(n_);
  filter_ = take(m);
  MakeChirp();
}

void FourierTransform::MakeChirp() {
  size_t square = 0;  // k^2 mod 2 n
  for (size_t k = 0; k < n_; ++k) {
    chirp_[k] =
        std::polar(1.0, -std::numbers::pi * static_cast<double>(square) /
                            static_cast<double>(n_));
    square = (square + 2 * k + 1) % (2 * n_);
  }
  std::fill(filter_.begin(), filter_.end(), Complex());
  filter_[0] = std::conj(chirp_[0]);
  for (size_t k = 1; k < n_; ++k) {
    filter_[k] = filter_[filter_.size() - k] = std::conj(chirp_[k]);
  }
  TransformPowerOfTwo(filter_);
}

// Cooley and Tukey's: the numbers are put in the order of their reversed
// positions, then pairs of transforms are joined, from length 1 upwards.
void FourierTransform::TransformPowerOfTwo(std::span<Complex> x) const {
  const size_t m = x.size();
  for (size_t i = 1, reversed = 0; i < m; ++i) {
    size_t bit = m / 2;
    for (; (reversed & bit) != 0; bit /= 2) reversed ^= bit;
    reversed ^= bit;
    if (i < reversed) std::swap(x[i], x[reversed]);
  }
  for (size_t half = 1; half < m; half *= 2) {
    const size_t step = m / 2 / half;
    for (size_t first = 0; first < m; first += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const Complex root = roots_[k * step];
        const Complex a = x[first + k], b = x[first + half + k];
        // Written out: the product of std::complex looks for infinities.
        const Complex turned(b.real() * root.real() - b.imag() * root.imag(),
                             b.real() * root.imag() + b.imag() * root.real());
        x[first + k] = a + turned;
        x[first + half + k] = a - turned;
      }
    }
  }
}

void FourierTransform::Forward() {
  if (chirp_.empty()) return TransformPowerOfTwo(work_);
  for (size_t j = 0; j < n_; ++j) work_[j] *= chirp_[j];
  std::fill(work_.begin() + static_cast<std::ptrdiff_t>(n_), work_.end(),
            Complex());
  TransformPowerOfTwo(work_);
  for (size_t k = 0; k < work_.size(); ++k) {
    work_[k] = std::conj(work_[k] * filter_[k]);
  }
  // The inverse transform is the conjugate of that of the conjugate.
  TransformPowerOfTwo(work_);
  const double scale = 1 / static_cast<double>(work_.size());
  for (size_t k = 0; k < n_; ++k) {
    work_[k] = scale * std::conj(work_[k]) * chirp_[k];
  }
}

void FourierTransform::Inverse() {
  for (Complex& x : data()) x = std::conj(x);
  Forward();
  const double scale = 1 / static_cast<double>(n_);
  for (Complex& x : data()) x = scale * std::conj(x);
}

}  // namespace strop::ops
