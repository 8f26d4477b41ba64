// SPDX-License-Identifier: Apache-2.0
#include "ops/cases/cases.h"

namespace strop {

const std::vector<OpCase>& AllOpCases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    for (Cases (*list)() :
         {ArithmeticCases,    UnaryCases,        LogicCases,
          ReduceCases,        MatrixCases,       ShapeCases,
          IndexCases,         ActivationCases,   ConvPoolCases,
          NormalizationCases, TrainingCases,     FusedCases,
          ElementwiseCases,   EinsumCases,       FusedByOrtCases,
          RandomCases,        SignalCases,       QuantizeCases,
          AttentionCases,     SelectionCases,    RecurrentCases,
          MoreLossCases,      FusedDropoutCases, OldTrainingCases,
          ConvTransposeCases, GroupNormCases,    ImageCases,
          MixedTypeCases,     GroupQueryCases,   VisionGradientCases}) {
      for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
    }
    return cases;
  }();
  return all;
}

}  // namespace strop
