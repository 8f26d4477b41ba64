// SPDX-License-Identifier: Apache-2.0
//
// Windows and Fourier transforms, against their defining sums.
#include <complex>
#include <numbers>

#include "ops/cases/cases.h"

namespace strop {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

// y[k] = sum over j of x[j] exp(-+ 2 pi i j k / n), by the definition.
Signal Transform(Signal x, size_t n, bool inverse = false) {
  x.resize(n);
  Signal y(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = 0; j < n; ++j) {
      const double turns = static_cast<double>(j * k % n) /
                           static_cast<double>(n) * (inverse ? 1 : -1);
      y[k] += x[j] * std::polar(1.0, 2 * std::numbers::pi * turns);
    }
    if (inverse) y[k] /= static_cast<double>(n);
  }
  return y;
}

Numbers64 Parts(const Signal& x, size_t count) {
  Numbers64 numbers;
  for (size_t k = 0; k < count; ++k) {
    numbers.push_back(x[k].real());
    numbers.push_back(x[k].imag());
  }
  return numbers;
}

Numbers64 RealParts(const Signal& x) {
  Numbers64 numbers;
  for (const Complex& value : x) numbers.push_back(value.real());
  return numbers;
}

Signal SomeSignal(size_t n, bool is_complex) {
  Signal x(n);
  for (size_t i = 0; i < n; ++i) {
    const int k = static_cast<int>(i);
    x[i] = {k * 5 % 7 - 3.0, is_complex ? k * 4 % 9 - 2.0 : 0};
  }
  return x;
}

int64_t Size(size_t n) { return static_cast<int64_t>(n); }

// One line of n numbers; powers of two, others, primes.
OpCase Line(size_t n, bool is_complex, bool inverse) {
  const Signal x = SomeSignal(n, is_complex);
  return {.name = "DFT/" + std::to_string(n) + (is_complex ? " complex" : "") +
                  (inverse ? " inverse" : ""),
          .op = "DFT",
          .inputs = {is_complex ? In({1, Size(n), 2}, Parts(x, n))
                                : In({1, Size(n), 1}, RealParts(x))},
          .attributes = {{"inverse", int64_t{inverse}}},
          .expected = {Parts(Transform(x, n, inverse), n)}};
}

Cases DftCases() {
  const int64_t one = 1;
  const Signal x5 = SomeSignal(5, false);
  const Signal c3 = SomeSignal(3, true);
  Cases cases;
  for (const size_t n : {1, 2, 3, 4, 7, 8, 12, 64, 101}) {
    cases.push_back(Line(n, /*is_complex=*/false, /*inverse=*/false));
    cases.push_back(Line(n, /*is_complex=*/true, /*inverse=*/false));
    cases.push_back(Line(n, /*is_complex=*/true, /*inverse=*/true));
  }
  const Cases others = {
      {.name = "DFT/onesided",
       .op = "DFT",
       .inputs = {In({5, 1}, RealParts(x5))},
       .attributes = {{"onesided", one}},
       .expected = {Parts(Transform(x5, 5), 3)}},
      {.name = "DFT/onesided, longer",
       .op = "DFT",
       .inputs = {In({1, 5, 1}, RealParts(x5)), Int64s({}, {8})},
       .attributes = {{"onesided", one}},
       .expected = {Parts(Transform(x5, 8), 5)}},
      {.name = "DFT/shorter",
       .op = "DFT",
       .inputs = {In({1, 5, 1}, RealParts(x5)), Int32s({1}, {3})},
       .expected = {Parts(Transform({x5[0], x5[1], x5[2]}, 3), 3)}},
      // Axis 0 of (3, 2, 1): lines (1, 3, 5) and (2, 4, 7).
      {.name = "DFT/axis 0",
       .op = "DFT",
       .inputs = {In({3, 2, 1}, {1, 2, 3, 4, 5, 7}), Omitted(),
                  Int64s({}, {0})},
       .expected = {[] {
         const Signal a = Transform({1, 3, 5}, 3), b = Transform({2, 4, 7}, 3);
         return Parts({a[0], b[0], a[1], b[1], a[2], b[2]}, 6);
       }()}},
      {.name = "DFT/17, default axis",
       .op = "DFT",
       .inputs = {In({1, 2, 2, 1}, {1, 2, 3, 5})},
       .opset = 17,
       .expected = {{4, 0, 7, 0, -2, 0, -3, 0}}},
      {.name = "DFT/17, axis",
       .op = "DFT",
       .inputs = {In({1, 2, 2, 1}, {1, 2, 3, 5})},
       .attributes = {{"axis", int64_t{-2}}},
       .opset = 17,
       .expected = {{3, 0, -1, 0, 8, 0, -2, 0}}},
      // From the first half of a transform back to the signal.
      {.name = "DFT/onesided inverse, odd",
       .op = "DFT",
       .inputs = {In({3, 2}, Parts(Transform(x5, 5), 3)), Int64s({}, {5})},
       .attributes = {{"onesided", one}, {"inverse", one}},
       .expected = {RealParts(x5)}},
      {.name = "DFT/onesided inverse",
       .op = "DFT",
       .inputs = {In({1, 3, 2}, Parts(Transform({1, 5, -2, 3}, 4), 3))},
       .attributes = {{"onesided", one}, {"inverse", one}},
       .expected = {{1, 5, -2, 3}}},
      // Imaginary parts that a real signal cannot have are not read.
      {.name = "DFT/onesided inverse, of any numbers",
       .op = "DFT",
       .inputs = {In({1, 3, 2}, Parts(c3, 3))},
       .attributes = {{"onesided", one}, {"inverse", one}},
       .expected = {RealParts(Transform(
           {c3[0].real(), c3[1], c3[2].real(), std::conj(c3[1])}, 4, true))}},
      {.name = "DFT/empty",
       .op = "DFT",
       .inputs = {In({0, 4, 1})},
       .expected = {{}}},
      {.name = "DFT/of nothing, longer",
       .op = "DFT",
       .inputs = {In({1, 0, 1}), Int64s({}, {2})},
       .expected = {{0, 0, 0, 0}}},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

Cases StftCases() {
  const Numbers64 signal = {1, -2, 3, 0.5, 4, -1, 2};
  const Numbers64 window = {0.5, 1, 0.25};
  Numbers64 plain, weighed, all;
  for (size_t start : {0, 2, 4}) {
    Signal frame(3), scaled(3);
    for (size_t i = 0; i < 3; ++i) {
      frame[i] = signal[start + i];
      scaled[i] = signal[start + i] * window[i];
    }
    for (const double v : Parts(Transform(frame, 3), 2)) plain.push_back(v);
    for (const double v : Parts(Transform(scaled, 3), 2)) weighed.push_back(v);
    for (const double v : Parts(Transform(scaled, 3), 3)) all.push_back(v);
  }
  const Signal complex = SomeSignal(4, true);
  return {
      {.name = "STFT/length",
       .op = "STFT",
       .inputs = {In({1, 7, 1}, signal), Int64s({}, {2}), Omitted(),
                  Int64s({}, {3})},
       .expected = {plain}},
      {.name = "STFT/window",
       .op = "STFT",
       .inputs = {In({1, 7}, signal), Int32s({}, {2}), In({3}, window)},
       .expected = {weighed}},
      {.name = "STFT/two sides",
       .op = "STFT",
       .inputs = {In({1, 7, 1}, signal), Int64s({}, {2}), In({3}, window),
                  Int64s({}, {3})},
       .attributes = {{"onesided", int64_t{0}}},
       .expected = {all}},
      {.name = "STFT/whole signal",
       .op = "STFT",
       .inputs = {In({2, 2, 1}, {1, 3, 2, 7}), Int64s({}, {5})},
       .expected = {{4, 0, -2, 0, 9, 0, -5, 0}}},
      {.name = "STFT/complex",
       .op = "STFT",
       .inputs = {In({1, 4, 2}, Parts(complex, 4)), Int64s({}, {1})},
       .attributes = {{"onesided", int64_t{0}}},
       .expected = {Parts(Transform(complex, 4), 4)}},
      {.name = "STFT/empty",
       .op = "STFT",
       .inputs = {In({0, 4, 1}), Int64s({}, {1})},
       .expected = {{}}},
  };
}

Cases WindowCases() {
  const double half = std::sqrt(0.5);
  // cos(2 pi n / 8) for a periodic window of 8.
  const Numbers64 cosines = {1, half, 0, -half, -1, -half, 0, half};
  const Numbers64 doubled = {1, 0, -1, 0, 1, 0, -1, 0};
  Numbers64 hann, hamming, blackman;
  for (size_t i = 0; i < 8; ++i) {
    hann.push_back(0.5 - 0.5 * cosines[i]);
    hamming.push_back(25.0 / 46 - 21.0 / 46 * cosines[i]);
    blackman.push_back(0.42 - 0.5 * cosines[i] + 0.08 * doubled[i]);
  }
  const auto symmetric = [](Numbers64 values) {
    values.push_back(values[0]);
    return values;
  };
  const CaseAttributes no_period = {{"periodic", int64_t{0}}};
  const CaseInput eight = Int64s({}, {8}), nine = Int32s({1}, {9});
  return {
      {.name = "HannWindow",
       .op = "HannWindow",
       .inputs = {eight},
       .expected = {hann}},
      {.name = "HannWindow/symmetric",
       .op = "HannWindow",
       .inputs = {nine},
       .attributes = no_period,
       .expected = {symmetric(hann)}},
      {.name = "HannWindow/float64",
       .op = "HannWindow",
       .inputs = {eight},
       .attributes = {{"output_datatype", int64_t{11}}},
       .expected = {hann},
       .tolerance = 1e-15},
      {.name = "HannWindow/integers",
       .op = "HannWindow",
       .inputs = {nine},
       .attributes = {{"periodic", int64_t{0}},
                      {"output_datatype", int64_t{6}}},
       .expected = {{0, 0, 0, 0, 1, 0, 0, 0, 0}}},
      {.name = "HannWindow/one",
       .op = "HannWindow",
       .inputs = {Int64s({}, {1})},
       .attributes = no_period,
       .expected = {{1}}},
      {.name = "HannWindow/empty",
       .op = "HannWindow",
       .inputs = {Int64s({}, {0})},
       .expected = {{}}},
      {.name = "HammingWindow",
       .op = "HammingWindow",
       .inputs = {eight},
       .expected = {hamming}},
      {.name = "HammingWindow/symmetric",
       .op = "HammingWindow",
       .inputs = {nine},
       .attributes = no_period,
       .expected = {symmetric(hamming)}},
      {.name = "BlackmanWindow",
       .op = "BlackmanWindow",
       .inputs = {eight},
       .expected = {blackman}},
      {.name = "BlackmanWindow/symmetric",
       .op = "BlackmanWindow",
       .inputs = {nine},
       .attributes = no_period,
       .expected = {symmetric(blackman)}},
  };
}

Cases MelCases() {
  const auto mel = [](Numbers64 numbers, double low, double high) {
    return std::vector<CaseInput>{
        Int64s({}, {numbers[0]}), Int64s({}, {numbers[1]}),
        Int64s({}, {numbers[2]}), Typed(DataType::kFloat32, {}, {low}),
        Typed(DataType::kFloat32, {}, {high})};
  };
  return {
      // Corners at 0, 1000, 2000 mel times 2/3: 0, 565, 1585 hertz, the bins
      // floor(17 f / 8000) = 0, 1, 3; by hand.
      {.name = "MelWeightMatrix",
       .op = "MelWeightMatrix",
       .inputs = mel({1, 16, 8000}, 0, 3428.6815),
       .expected = {{0, 1, 0.5, 0, 0, 0, 0, 0, 0}}},
      {.name = "MelWeightMatrix/all in one bin",
       .op = "MelWeightMatrix",
       .inputs = mel({2, 2, 8000}, 100, 100),
       .expected = {{1, 1, 0, 0}}},
      {.name = "MelWeightMatrix/above the bins",
       .op = "MelWeightMatrix",
       .inputs = mel({1, 2, 8}, 5000, 6000),
       .expected = {{0, 0}}},
      {.name = "MelWeightMatrix/no band",
       .op = "MelWeightMatrix",
       .inputs = mel({0, 4, 8000}, 0, 4000),
       .expected = {{}}},
  };
}

}  // namespace

Cases SignalCases() {
  Cases cases;
  for (Cases (*list)() : {DftCases, StftCases, WindowCases, MelCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace strop
