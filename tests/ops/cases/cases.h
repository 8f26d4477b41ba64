// SPDX-License-Identifier: Apache-2.0
//
// One function per file of cases; AllOpCases joins them.
#pragma once

#include <cmath>
#include <limits>

#include "ops/op_runner.h"

namespace strop {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline const std::vector<DataType> kOnlyInt64 = {DataType::kInt64};
inline const std::vector<DataType> kOnlyInt32 = {DataType::kInt32};
inline const std::vector<DataType> kOnlyBool = {DataType::kBool};

inline const std::string kMs = "com.microsoft";
inline const std::string kFused = "strop.internal";

using Cases = std::vector<OpCase>;

// The oracle of an elementwise op, over given numbers.
inline Numbers64 Each(const Numbers64& x, double (*f)(double)) {
  Numbers64 y;
  for (const double value : x) y.push_back(f(value));
  return y;
}
inline Numbers64 Each2(const Numbers64& a, const Numbers64& b,
                       double (*f)(double, double)) {
  Numbers64 y;
  for (size_t i = 0; i < a.size(); ++i) y.push_back(f(a[i], b[i]));
  return y;
}

// Small whole numbers without a pattern: (i * step) mod `modulus` - modulus /
// 2, times scale.
inline CaseInput Mixed(Shape shape, int step, int modulus, double scale = 1) {
  Numbers64 values;
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(scale *
                     static_cast<double>(i * step % modulus - modulus / 2));
  }
  return In(shape, std::move(values));
}

Cases ArithmeticCases();
Cases UnaryCases();
Cases LogicCases();
Cases ReduceCases();
Cases MatrixCases();
Cases MixedTypeCases();
Cases ShapeCases();
Cases IndexCases();
Cases ActivationCases();
Cases ConvPoolCases();
Cases ConvTransposeCases();
Cases NormalizationCases();
Cases RecurrentCases();
Cases GroupNormCases();
Cases GroupQueryCases();
Cases ImageCases();
Cases TrainingCases();
Cases MoreLossCases();
Cases FusedDropoutCases();
Cases OldTrainingCases();
Cases FusedCases();
Cases ElementwiseCases();
Cases EinsumCases();
Cases FusedByOrtCases();
Cases RandomCases();
Cases SignalCases();
Cases QuantizeCases();
Cases AttentionCases();
Cases SelectionCases();
Cases VisionGradientCases();

}  // namespace strop
