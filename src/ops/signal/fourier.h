// SPDX-License-Identifier: Apache-2.0
//
// The discrete Fourier transform of one length, in double, in n log n steps
// for any n:
//
//   FourierTransform transform(n, scratch);
//   for (...) transform.data()[j] = ...;  // all n of them
//   transform.Forward();
//   ... = transform.data()[k];
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>

namespace strop::ops {

class FourierTransform {
 public:
  using Complex = std::complex<double>;
  // Longer ones are refused by the ops: tables would not fit into memory.
  static constexpr int64_t kMaxLength = int64_t{1} << 32;

  static size_t ScratchBytes(int64_t n);
  // Computes the tables. 1 <= n <= kMaxLength.
  FourierTransform(int64_t n, std::byte* scratch);

  std::span<Complex> data() const { return work_.first(n_); }
  // data[k] = sum over j of data[j] exp(-2 pi i j k / n)
  void Forward();
  // data[j] = 1/n sum over k of data[k] exp(2 pi i j k / n)
  void Inverse();

 private:
  void TransformPowerOfTwo(std::span<Complex> x) const;
  void MakeChirp();

  size_t n_;
  std::span<Complex> roots_;   // exp(-2 pi i k / m) for k < m / 2
  std::span<Complex> work_;    // m numbers
  std::span<Complex> chirp_;   // exp(-pi i k^2 / n); none for powers of two
  std::span<Complex> filter_;  // the transform of the chirp's conjugate
};

}  // namespace strop::ops
