// SPDX-License-Identifier: Apache-2.0
#include "ops/number.h"

namespace strop::ops {
namespace {

// num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz
void InferMelWeightMatrix(InferContext& c) {
  const OpNode& node = c.node();
  for (size_t i = 0; i < 5; ++i) RequireOneElement(c, i);
  for (size_t i = 0; i < 3; ++i) RequireIndices(c, i);
  const int64_t bands = IndexAt(c.value(0), 0);
  const int64_t length = IndexAt(c.value(1), 0);
  if (bands < 0 || length < 0) {
    Fail(node, "{} bands of a transform of length {}", bands, length);
  }
  c.SetOutput(0, TypeAttribute(node, "output_datatype", DataType::kFloat32),
              {length / 2 + 1, bands});
}

// The corners of the triangles as bins of the transform: spread evenly over
// the mel scale, mel(f) = 2595 log10(1 + f / 700).
class MelScale {
 public:
  explicit MelScale(const KernelContext& c)
      : length_(static_cast<double>(IndexAt(c.input(1), 0))),
        rate_(static_cast<double>(IndexAt(c.input(2), 0))) {
    const double low = ScalarAsDouble(c.node(), c.input(3));
    const double high = ScalarAsDouble(c.node(), c.input(4));
    if (rate_ <= 0) Fail(c.node(), "the sample rate is {}", rate_);
    if (!(low >= 0 && low <= high && std::isfinite(high))) {
      Fail(c.node(), "the edges are {} and {} hertz", low, high);
    }
    first_ = ToMel(low);
    step_ = (ToMel(high) - first_) /
            (static_cast<double>(IndexAt(c.input(0), 0)) + 2);
  }

  double Bin(int64_t corner) const {
    const double mel = first_ + step_ * static_cast<double>(corner);
    const double hertz = 700 * std::expm1(mel / 2595 * std::log(10));
    return std::floor((length_ + 1) * hertz / rate_);
  }

 private:
  static double ToMel(double hertz) {
    return 2595 * std::log1p(hertz / 700) / std::log(10);
  }
  double length_, rate_, first_, step_;
};

// The height at bin x of the triangle with these corners and height 1.
double Height(double x, double left, double middle, double right) {
  if (x == middle) return 1;
  if (x < middle) return x < left ? 0 : (x - left) / (middle - left);
  return x > right ? 0 : (right - x) / (right - middle);
}

template <class T>
void MelWeightMatrix(const KernelContext& c) {
  const MelScale scale(c);
  const int64_t bins = c.output(0).shape()[0];
  const int64_t bands = c.output(0).shape()[1];
  T* y = c.out<T>(0).data();
  c.ParallelFor(bands, 2.0 * static_cast<double>(bins),
                [&](int64_t begin, int64_t end) {
                  for (int64_t band = begin; band < end; ++band) {
                    const double left = scale.Bin(band);
                    const double middle = scale.Bin(band + 1);
                    const double right = scale.Bin(band + 2);
                    for (int64_t i = 0; i < bins; ++i) {
                      y[i * bands + band] = FromDouble<T>(
                          Height(static_cast<double>(i), left, middle, right));
                    }
                  }
                });
}

}  // namespace

// Column i weighs the bins of a spectrum with the i-th triangle.
extern constexpr OpDef kMelWeightMatrix = {
    .name = "MelWeightMatrix",
    .inputs = {5, 5},
    .infer = InferMelWeightMatrix,
    .reference = Instantiate<Numbers, -1>(
        []<class T>(const KernelContext& c) { MelWeightMatrix<T>(c); }),
    .value_inputs = {0, 1},
    .stops_gradient = {0, 1, 2, 3, 4}};

}  // namespace strop::ops
